import { isIP } from "node:net";
import { type Address, destroySocket, type NodeClient, peerOf, reachable } from "./client.js";
import { isReplyError } from "../base/errors.js";
import { DedicatedConnection } from "./dedicated.js";

const channel = "+switch-master";

/** Sentinels demote a former master within about ten seconds. Until then it accepts writes that will be lost. */
const distrustMs = 15_000;

/**
 * Listens to the Sentinels of a kit client, and ends its connection when they report another master. Without this, an idle client,
 * or one whose master was stopped and continued, would stay connected and write to the old master. Returns a function that stops
 * this.
 *
 * The `failoverDetector` of ioredis does the same, but it prints when a Sentinel is unreachable and does not reconnect to it. It
 * also ends the client for good when the message arrives during a reconnection.
 */
export const watchSentinels = (client: NodeClient): (() => void) => {
  const { sentinels, name, sentinelUsername, sentinelPassword, sentinelTLS } = client.options;
  let left: Address | undefined;
  let leftAt = -Infinity;

  const isAt = ({ host, port }: Address): boolean => isIP(host) > 0 && peerOf(client) === `${host}:${String(port)}`;
  const leave = (): void => {
    if (performance.now() - leftAt < distrustMs && left && isAt(left)) destroySocket(client);
  };
  const onNews = (_: unknown, news: unknown): void => {
    const [master, oldHost = "", oldPort, host = "", port] = String(news).split(" ");
    if (master !== name) return;
    left = reachable(client, { host: oldHost, port: Number(oldPort) });
    leftAt = performance.now();
    const next = reachable(client, { host, port: Number(port) });
    // The wait between two tries may be two seconds, and the Sentinels already name the new master.
    if (client.status === "reconnecting" || client.status === "end") client.connect().catch(() => undefined);
    else if (!isAt(next)) destroySocket(client);
  };

  const connections = (sentinels ?? []).map(({ host = "127.0.0.1", port = 26_379 }) => {
    const settings = {
      connectionName: "kit:sentinel",
      sentinels: null,
      name: null,
      role: null,
      username: sentinelUsername ?? null,
      password: sentinelPassword ?? null,
      tls: sentinelTLS,
      db: 0,
    };
    const ready = (connection: NodeClient): void => {
      connection.on("message", onNews);
      connection.subscribe(channel).then(
        () => dedicated.proven(),
        // A Sentinel that refuses SUBSCRIBE will refuse it again.
        (error: unknown) => isReplyError(error) || destroySocket(connection),
      );
    };
    const dedicated = new DedicatedConnection(client, settings, { ready, down: () => undefined }, { host, port });
    return dedicated;
  });
  // A Sentinel that has not seen the failover may have sent it back to the old master.
  client.on("ready", leave);
  for (const dedicated of connections) dedicated.open();
  return () => {
    client.off("ready", leave);
    for (const dedicated of connections) dedicated.close();
  };
};
