import { connect } from "node:net";
import type { RedisOptions } from "ioredis";

const askMs = 500;

/** The first that comes back for a PING in the clear; empty when nothing does. */
const firstWordAt = (host: string, port: number): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect({ host, port, timeout: askMs }, () => socket.write("PING\r\n"));
    socket.unref();
    socket.once("data", (data) => {
      resolve(data.toString("latin1"));
      socket.destroy();
    });
    socket.once("timeout", () => socket.destroy());
    socket.on("error", () => undefined);
    socket.once("close", () => resolve(""));
  });

/** What is at a server's address, if an error of the connection looks as if that were no Redis; undefined: it does not. */
export const strangerAt = async ({ host, port, tls }: RedisOptions, error: unknown): Promise<string | undefined> => {
  const text = String((error as { message?: unknown } | undefined)?.message);
  const isForeign = /Unknown RESP type|Protocol error, got/.test(text);
  if (!host || !port || !(isForeign || /Connection is closed|EPIPE|ECONNRESET/.test(text))) return undefined;
  // An HTTP server closes the connection, too: which of the two the client sees first is chance.
  if (isForeign || /^[^+-]/.test(await firstWordAt(host, port)))
    return "something answers there, but not as Redis does; a wrong port?";
  const mixedUp = tls ? "without TLS (redis:)" : "with TLS (rediss:)";
  return `something listens there, but closes each connection at once; a wrong port, or one ${mixedUp}?`;
};
