import { connect as connectPlain } from "node:net";
import { KitError } from "@kit/core";
import type { Finding } from "@kit/core/toolkit";
import type { ServerNode } from "../node.js";
import { bringBack, type Check, ok, problem } from "./check.js";

export const reachability: Check = {
  id: "reachability",
  look: ({ connectedMs, trouble, nodes }) => {
    const found: Finding[] = [];
    if (trouble)
      found.push(
        problem(
          `${nodes[0].address} answers, but the Cluster cannot be used: ${trouble.message}`,
          "See what cluster-slots says.",
        ),
      );
    found.push(...silentOnes(nodes));
    return Promise.resolve(found.length > 0 ? found : [ok(`connected after ${String(Math.round(connectedMs))} ms`)]);
  },
};

/** Masters that do not answer, while others do. */
const silentOnes = (nodes: readonly ServerNode[]): readonly Finding[] => {
  const silent = nodes.flatMap(({ address, silence }) => (silence === undefined ? [] : [`${address} (${silence})`]));
  return silent.length > 0 ? [problem(`masters that do not answer: ${silent.join(", ")}`, bringBack)] : [];
};

interface Told {
  readonly code?: string;
  readonly message?: string;
}

const reasonOf = (error: unknown): string => {
  const { cause, message = "" } = error as Told & { readonly cause?: Told };
  return [cause?.code, cause?.message, message].filter((text) => text !== undefined).join(" ");
};

const fixes: readonly (readonly [RegExp, string])[] = [
  [
    /EADDRNOTAVAIL|Cannot assign requested address/,
    "This machine has no port left: somebody opens a connection per call. Make one client, and share it.",
  ],
  [/ECONNREFUSED/, "Start the server, or correct host and port; see that it listens on that address (bind)."],
  [/ENOTFOUND|EAI_AGAIN/, "Correct the host's name, or the machine's DNS."],
  [/EACCES|ENOENT/, "Correct the socket's path, and who may open it (unixsocketperm)."],
  [/CERT|SELF_SIGNED|UNABLE_TO_VERIFY|TLS|SSL/, "Renew the certificate, or name its CA in NODE_EXTRA_CA_CERTS."],
  [/NOAUTH|WRONGPASS|invalid password/, "Correct user name and password; both are percent-encoded in an address."],
  [/LOADING|still loading/, "Wait until the server has read its data."],
  [
    /busy with a long script/,
    "Somebody's script does not end: SCRIPT KILL, or FUNCTION KILL, ends it unless it has written.",
  ],
  [/max number of clients/, "The server has no connection left: raise maxclients, or close what is not used."],
];

const askMs = 500;

/** The first that comes back for a PING in the clear; empty when nothing does. */
const firstWordAt = (host: string, port: number): Promise<string> =>
  new Promise((resolve) => {
    const socket = connectPlain({ host, port, timeout: askMs }, () => socket.write("PING\r\n"));
    socket.once("data", (data) => {
      resolve(data.toString("latin1"));
      socket.destroy();
    });
    socket.once("timeout", () => socket.destroy());
    socket.on("error", () => undefined);
    socket.once("close", () => resolve(""));
  });

/** What is at a single server's address if it is no Redis, by what the connection ended with. */
export const strangerOf = async (error: unknown, url: string): Promise<string | undefined> => {
  const scheme = /^rediss?(?=:)/i.exec(url)?.[0].toLowerCase();
  if (!scheme || !KitError.is(error) || error.code !== "KIT_UNAVAILABLE") return undefined;
  const { message = "" } = (error.cause ?? {}) as Told;
  const [, host = "", port = ""] = /^No Redis at (\S+):(\d+) after /.exec(error.message) ?? [];
  const isForeign = /Unknown RESP type|Protocol error, got/.test(message);
  if (port === "" || !(isForeign || /Connection is closed|EPIPE|ECONNRESET/.test(message))) return undefined;
  // An HTTP server closes the connection, too: which of the two the client sees first is chance.
  if (isForeign || /^[^+-]/.test(await firstWordAt(host, Number(port))))
    return `something answers at ${host}:${port}, but not as Redis does; a wrong port?`;
  const mixedUp = scheme === "redis" ? "with TLS (rediss:)" : "without TLS (redis:)";
  return `something listens at ${host}:${port}, but closes each connection at once; a wrong port, or one ${mixedUp}?`;
};

/** Why there is no connection, and what to do. */
export const unreachable = (error: unknown, stranger?: string): Finding => {
  if (stranger !== undefined)
    return problem(
      stranger,
      "Correct the port, or the scheme: rediss: where the server speaks TLS, redis: where it does not.",
    );
  const reason = reasonOf(error);
  const [, fix = "See that the server runs, and that a firewall lets this machine through."] =
    fixes.find(([pattern]) => pattern.test(reason)) ?? [];
  return problem(KitError.is(error) ? error.message : reason, fix);
};
