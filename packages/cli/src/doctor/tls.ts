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
  if (hasTls) return ok("encrypted, with a verified server certificate");
  if (isLoopback(host)) return ok("not encrypted, but stays on this machine");
  const fix = "Enable TLS (tls-port, tls-cert-file, tls-key-file), and use a rediss:// address.";
  const what = hasPassword ? "data and password cross" : "data crosses";
  if (isPrivate(host))
    return warning(`${what} the private network unencrypted: other machines in it can read everything`, fix);
  return warning(`${what} the network to ${host} unencrypted`, fix);
};

const look = (node: ServerNode): readonly Finding[] => {
  const { path, tls, password } = node.settings;
  if (path !== undefined) return [ok("a local socket")];
  if (tls?.rejectUnauthorized === false)
    return [
      warning(
        "encrypted, but the server's certificate is not verified",
        "Set the client's `ca`, and remove rejectUnauthorized: false.",
      ),
    ];
  return [judgeTls(node.host, tls !== undefined, Boolean(password))];
};

export const tls: Check = {
  id: "tls",
  look: (server) => onEachNode(server, (node) => Promise.resolve(look(node))),
};
