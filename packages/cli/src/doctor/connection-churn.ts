import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { counted, type Finding } from "@kit/core/toolkit";
import { numberOf, type ServerNode } from "../node.js";
import { type Check, ok, onEachNode, roughly, warning } from "./check.js";

const windowMs = 1_000;
/** Health checks and deployments open some; an application that keeps its connections opens none. */
const manyPerSecond = 20;
/** The commands of a connection for one command: HELLO, AUTH, CLIENT SETNAME, and its own. */
const commandsPerConnection = 6;

interface Traffic {
  readonly connections: number;
  readonly commands: number;
}

/** New connections and commands of others in one second. */
const watch = async (node: ServerNode): Promise<Traffic> => {
  const before = await node.freshInfo();
  await pause(windowMs);
  const after = await node.freshInfo();
  const grown = (name: string): number => numberOf(after, name) - numberOf(before, name);
  return { connections: grown("total_connections_received"), commands: grown("total_commands_processed") - 1 };
};

/** In the connection table of Linux: the closed connections to a port whose local ports this machine still keeps. */
export const portsKept = (table: string, port: number): number => {
  const timeWait = "06";
  const remote = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return table.split("\n").filter((line) => {
    const [, , to = "", state] = line.trim().split(/\s+/);
    return state === timeWait && to.endsWith(remote);
  }).length;
};

const connectionTable = (): string =>
  ["/proc/net/tcp", "/proc/net/tcp6"]
    .map((file) => {
      try {
        return readFileSync(file, "utf8");
      } catch {
        // Other systems have no such table.
        return "";
      }
    })
    .join("\n");

/** There are about 28,000 local ports, and each is kept for one minute. */
const manyWaiting = 5_000;

const fix =
  "Create one client when the process starts, and share it. A connection per call costs a handshake each time.";

export const connectionChurn: Check = {
  id: "connection-churn",
  look: (server) =>
    onEachNode(server, async (node): Promise<readonly Finding[]> => {
      const { connections, commands } = await watch(node);
      const isChurning = connections >= manyPerSecond && commands <= connections * commandsPerConnection;
      const found: Finding[] = [];
      if (isChurning)
        found.push(
          warning(
            `${roughly(connections)} new connections for ${roughly(commands)} commands in one second: a client opens a connection per call`,
            fix,
          ),
        );
      const waiting = node.settings.path === undefined ? portsKept(connectionTable(), node.port) : 0;
      if (waiting > manyWaiting)
        found.push(
          warning(
            `this machine keeps ${roughly(waiting)} local ports for closed connections to port ${String(node.port)}. At about 28,000, new connections fail with EADDRNOTAVAIL`,
            fix,
          ),
        );
      return found.length > 0 ? found : [ok(`${counted(connections, "new connection")} in one second`)];
    }),
};
