import { connect, type Socket } from "node:net";
import { KitError, KitUnavailableError } from "@kit/core";
import { type Finding, serverError } from "@kit/core/toolkit";
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
    if (found.length > 0) return Promise.resolve(found);
    const where = nodes.map(({ address }) => address).join(", ");
    return Promise.resolve([ok(`connected to ${where} after ${String(Math.round(connectedMs))} ms`)]);
  },
};

/** Masters that do not answer, while others do. */
const silentOnes = (nodes: readonly ServerNode[]): readonly Finding[] => {
  const silent = nodes.flatMap(({ address, silence }) => (silence === undefined ? [] : [`${address} (${silence})`]));
  return silent.length > 0 ? [problem(`masters that do not answer: ${silent.join(", ")}`, bringBack)] : [];
};

interface ErrorFields {
  readonly code?: string;
  readonly message?: string;
}

const reasonOf = (error: unknown): string => {
  const { code, cause, message = "" } = error as ErrorFields & { readonly cause?: ErrorFields };
  // Core maps the server's words to codes.
  const kitCode = cause instanceof Error ? serverError(cause, "Connecting").code : undefined;
  return [code, kitCode, cause?.code, cause?.message, message].filter((text) => text !== undefined).join(" ");
};

const wrongPort = /check the port/i;
const fixes: readonly (readonly [RegExp, string])[] = [
  [wrongPort, "Correct the port, or the scheme: rediss: where the server speaks TLS, redis: where it does not."],
  [
    /EADDRNOTAVAIL|Cannot assign requested address/,
    "This machine has no port left: a client opens a connection per call. Make one client, and share it.",
  ],
  [/ECONNREFUSED/, "Start the server, or correct host and port; see that it listens on that address (bind)."],
  [/ENOTFOUND|EAI_AGAIN/, "Correct the host's name, or the machine's DNS."],
  [/EACCES|ENOENT/, "Correct the socket's path, and who may open it (unixsocketperm)."],
  [/CERT|SELF_SIGNED|UNABLE_TO_VERIFY|TLS|SSL/, "Renew the certificate, or name its CA in NODE_EXTRA_CA_CERTS."],
  [/KIT_AUTH/, "Correct user name and password; both are percent-encoded in an address."],
  [/KIT_LOADING|still loading/, "Wait until the server has read its data."],
  [/KIT_BUSY/, "Somebody's script does not end: SCRIPT KILL, or FUNCTION KILL, ends it unless it has written."],
  [/max number of clients/, "The server has no connection left: raise maxclients, or close what is not used."],
];

/** How long an accept may take, and how long the first byte after it. */
const answerMs = 1_000;

/**
 * Whether something accepts a connection there, and then does not reply to a PING. `address`: `host:port`, or the path of a
 * socket. A server with another protocol, or with TLS on one side only, sends a greeting or an error, or closes the
 * connection.
 */
const isSilent = async (address: string): Promise<boolean> => {
  const [, host = "", port = ""] = /^\[?(.*?)\]?:(\d+)$/.exec(address) ?? [];
  let socket: Socket | undefined;
  try {
    return await new Promise<boolean>((resolve) => {
      socket = port === "" ? connect({ path: address }) : connect({ host, port: Number(port) });
      let isAccepted = false;
      socket.once("connect", () => {
        isAccepted = true;
        socket?.write("PING\r\n");
      });
      for (const event of ["data", "end", "error"]) socket.once(event, () => resolve(false));
      socket.setTimeout(answerMs, () => resolve(isAccepted));
    });
  } finally {
    socket?.destroy();
  }
};

/** By the words of the reason, and by a look at the address where they leave it open: a silent handshake is ended from here. */
const fixOf = async (reason: string, error: unknown): Promise<string> => {
  const [pattern, fix] = fixes.find(([words]) => words.test(reason)) ?? [];
  const isOpen = fix === undefined || pattern === wrongPort;
  if (isOpen && error instanceof KitUnavailableError && (await isSilent(error.address)))
    return "It accepts connections but does not answer: a stopped process, a long script, or a full disk.";
  return fix ?? "See that the server runs, and that a firewall lets this machine through.";
};

/** Why there is no connection, and what to do. */
export const unreachable = async (error: unknown): Promise<Finding> => {
  const reason = reasonOf(error);
  return problem(KitError.is(error) ? error.message : reason, await fixOf(reason, error));
};
