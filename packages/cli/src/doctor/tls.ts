import { isIP } from "node:net";
import type { Finding } from "@kit/core/toolkit";
import type { ServerNode } from "../node.js";
import { isLoopback } from "../target.js";
import { type Check, ok, onEachNode, warning } from "./check.js";

const isPrivate = (host: string): boolean =>
  isIP(host) === 4
    ? /^(10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01]))\./.test(host)
    : isIP(host) === 6 && /^f[cd]|^fe80/i.test(host);

/** The finding about a connection to `host`. */
export const judgeTls = (host: string, hasTls: boolean, hasPassword: boolean): Finding => {
  if (hasTls) return ok("encrypted, and the server's certificate was checked");
  if (isLoopback(host)) return ok("not encrypted, and does not leave this machine");
  const fix = "Switch TLS on (tls-port, tls-cert-file, tls-key-file) and write the address as rediss://.";
  const what = hasPassword ? "data and password go" : "data goes";
  if (isPrivate(host)) return warning(`${what} over the network in the clear; others in it can read along`, fix);
  return warning(`${what} to ${host} in the clear`, fix);
};

const look = (node: ServerNode): readonly Finding[] => {
  const { path, tls, password } = node.settings;
  if (path !== undefined) return [ok("a socket of this machine")];
  if (tls?.rejectUnauthorized === false)
    return [
      warning("encrypted, but the server's certificate is not checked", "Give the client its `ca`, and check it."),
    ];
  return [judgeTls(node.host, tls !== undefined, Boolean(password))];
};

export const tls: Check = {
  id: "tls",
  look: (server) => onEachNode(server, (node) => Promise.resolve(look(node))),
};
