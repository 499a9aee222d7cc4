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
          "See the check cluster-slots.",
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
  [wrongPort, "Correct the port, or the scheme: rediss: with TLS, redis: without TLS."],
  [
    /EADDRNOTAVAIL|Cannot assign requested address/,
    "This machine has no local port left because a client opens a connection per call. Create one client, and share it.",
  ],
  [
    /ECONNREFUSED/,
    "Start the server, or correct the host and port. Check that the server listens on that address (bind).",
  ],
  [/ENOTFOUND|EAI_AGAIN/, "Correct the host name, or this machine's DNS."],
  [/EACCES|ENOENT/, "Correct the socket's path, or its permissions (unixsocketperm)."],
  [/CERT|SELF_SIGNED|UNABLE_TO_VERIFY|TLS|SSL/, "Renew the certificate, or set its CA in NODE_EXTRA_CA_CERTS."],
  [/KIT_AUTH/, "Correct the user name and password. Percent-encode both in the address."],
  [/KIT_LOADING|still loading/, "Wait until the server has loaded its data."],
  [/KIT_BUSY/, "A script does not finish. End it with SCRIPT KILL or FUNCTION KILL, which work if it has not written."],
  [/max number of clients/, "The server has no connection left. Raise maxclients, or close unused connections."],
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
    return "It accepts connections but does not answer. Usual causes: a stopped process, a long script, or a full disk.";
  return fix ?? "Check that the server runs, and that no firewall blocks this machine.";
};

/** Why there is no connection, and what to do. */
export const unreachable = async (error: unknown): Promise<Finding> => {
  const reason = reasonOf(error);
  return problem(KitError.is(error) ? error.message : reason, await fixOf(reason, error));
};
