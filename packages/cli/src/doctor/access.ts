import type { Finding } from "@kit/core/toolkit";
import { Refused, type ServerNode } from "../node.js";
import { isLoopback } from "../target.js";
import { type Check, ok, onEachNode, problem, warning } from "./check.js";

/** Whether the server accepts clients without name and password. */
const isOpen = async (node: ServerNode): Promise<boolean> => {
  const stranger = node.another({ username: undefined as never, password: undefined as never, db: 0 });
  try {
    await stranger.connect();
    await stranger.call("PING");
    return true;
  } catch {
    return false;
  } finally {
    stranger.disconnect();
  }
};

const isPublic = (bind: string): boolean =>
  bind
    .split(/\s+/)
    .map((address) => address.replace(/^-/, ""))
    .some((address) => !isLoopback(address));

export const access: Check = {
  id: "access",
  look: (server) =>
    onEachNode(server, async (node): Promise<readonly Finding[]> => {
      if (!(await isOpen(node))) return [ok("nobody is served without a password")];
      const settings = await node.config("bind", "protected-mode").catch((error: unknown) => {
        if (error instanceof Refused) return undefined;
        throw error;
      });
      const fix =
        "Give each application a user (ACL SETUSER), then ACL SETUSER default off; or set requirepass at least.";
      const isReachable = settings
        ? isPublic(settings.get("bind") ?? "")
        : node.settings.path === undefined && !isLoopback(node.host);
      const isProtected = settings?.get("protected-mode") === "yes";
      if (isReachable && !isProtected)
        return [
          problem("anybody who reaches the port may read and change everything: no password, user default on", fix),
        ];
      if (settings && !isProtected)
        return [
          warning("no password, and protected-mode is off: only the address it listens on keeps others out", fix),
        ];
      return [ok("no password; only programs on its own machine are served")];
    }),
};
