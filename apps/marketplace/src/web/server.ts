import { once } from "node:events";
import type { Server } from "node:http";
import { createAdaptorServer } from "@hono/node-server";
import type { Hono } from "hono";

export interface WebServer {
  readonly origin: string;
  close(): Promise<void>;
}

/** Served without `--port`, if it is free. */
export const usualPort = 3_000;

const lastRequestsMs = 500;

const listening = async (server: Server, port: number): Promise<boolean> => {
  server.listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return false;
    throw error;
  }
};

/**
 * Serves on the loopback. Without `port` it takes 3000, or any free port if 3000 is taken.
 *
 * @throws {Error} `port` is given and taken.
 */
export const serve = async (app: Hono, port: number | undefined): Promise<WebServer> => {
  const server = createAdaptorServer({
    fetch: app.fetch,
    // Disconnects clients that send slowly to keep sockets busy.
    serverOptions: {
      ...{ headersTimeout: 5_000, requestTimeout: 20_000, keepAliveTimeout: 5_000, maxHeaderSize: 16_384 },
      connectionsCheckingInterval: 1_000,
    },
  }) as Server;
  server.maxConnections = 1_000;
  if (!(await listening(server, port ?? usualPort)) && (port !== undefined || !(await listening(server, 0))))
    throw new Error(`Port ${port ?? usualPort} is in use. Pass another with --port`);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the system assigned no port");
  return {
    origin: `http://127.0.0.1:${address.port}`,
    close: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), lastRequestsMs);
      await closed;
      clearTimeout(timer);
    },
  };
};
