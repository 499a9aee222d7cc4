import { KitError } from "@kit/core";
import { type Check, type Finding, ok, problem } from "./check.js";

export const reachability: Check = {
  id: "reachability",
  look: ({ connectedMs, trouble, nodes: [node] }) =>
    Promise.resolve([
      trouble
        ? problem(
            `${node.address} answers, but the Cluster cannot be used: ${trouble.message}`,
            "See what cluster-slots says.",
          )
        : ok(`connected after ${String(Math.round(connectedMs))} ms`),
    ]),
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

/** Why there is no connection, and what to do. */
export const unreachable = (error: unknown): Finding => {
  const reason = reasonOf(error);
  const [, fix = "See that the server runs, and that a firewall lets this machine through."] =
    fixes.find(([pattern]) => pattern.test(reason)) ?? [];
  return problem(KitError.is(error) ? error.message : reason, fix);
};
