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
      if (!(await isOpen(node))) return [ok("clients must authenticate")];
      const settings = await node.config("bind", "protected-mode").catch((error: unknown) => {
        if (error instanceof Refused) return undefined;
        throw error;
      });
      const fix =
        "Create a user for each application (ACL SETUSER), then run ACL SETUSER default off. At a minimum, set requirepass.";
      const isReachable = settings
        ? isPublic(settings.get("bind") ?? "")
        : node.settings.path === undefined && !isLoopback(node.host);
      const isProtected = settings?.get("protected-mode") === "yes";
      if (isReachable && !isProtected)
        return [problem("no password: any client that reaches the port can read and change all data", fix)];
      if (settings && !isProtected)
        return [
          warning("no password, and protected-mode is off: only the listening address (bind) protects the server", fix),
        ];
      return [ok("no password, but only programs on the same machine can connect")];
    }),
};
