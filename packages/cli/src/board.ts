import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { userInfo } from "node:os";
import type { PackageDescriptor } from "@kit/core/toolkit";
import { type Command, InvalidArgumentError, Option } from "commander";
import { type Target, targetOptions, withConnection } from "./connection.js";
import { exitCodes, Failure } from "./exit-codes.js";
import { write, writeJson } from "./output.js";
import { harmless } from "./print.js";
import { shutdownSignal } from "./shutdown.js";
import { withoutCredentials } from "./target.js";

interface BoardTarget extends Target {
  readonly port: number;
  readonly actions?: true;
  readonly data?: true;
}

type Handler = (request: Request) => Promise<Response>;

const portOf = (text: string): number => {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535) throw new InvalidArgumentError("Expected a port from 0 to 65535.");
  return port;
};

const boardModule = async (): Promise<typeof import("@kit/board")> => {
  try {
    return await import("@kit/board");
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new Failure("kit board needs @kit/board. Run: npm install @kit/board", exitCodes.usage);
  }
};

const secret = (): string => randomBytes(24).toString("base64url");

const isSame = (one: string, other: string): boolean => {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
};

const plain = (status: number, text: string): Response =>
  new Response(`${text}\n`, {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" },
  });

/**
 * Lets in only the browser that opened the printed address. Its token works once, and becomes a cookie. A page of another site could reach
 * this port under its own name, so the name in `Host` must be one of this machine.
 */
const guarded = (board: Handler, port: () => number): { readonly token: string; readonly handler: Handler } => {
  const [token, session] = [secret(), secret()];
  let isUsed = false;
  const handler: Handler = async (request) => {
    const host = (request.headers.get("host") ?? "").toLowerCase();
    const own = ["127.0.0.1", "localhost", "[::1]"].map((name) => `${name}:${String(port())}`);
    if (!own.includes(host)) return plain(421, "This name is not served here.");
    const cookie = `kit-board-${String(port())}`;
    const given = new URL(request.url).searchParams.get("token");
    if (given !== null) {
      if (isUsed || !isSame(given, token)) return plain(403, "This address was used already. Start kit board again.");
      isUsed = true;
      const headers = { location: "/", "set-cookie": `${cookie}=${session}; HttpOnly; SameSite=Strict; Path=/` };
      return new Response(null, { status: 303, headers: { ...headers, "cache-control": "no-store" } });
    }
    const cookies = (request.headers.get("cookie") ?? "").split(/;\s*/);
    if (!cookies.some((one) => isSame(one, `${cookie}=${session}`)))
      return plain(403, "Open the address that kit board has printed.");
    return await board(request);
  };
  return { token, handler };
};

const listen = async (server: Server, port: number): Promise<number> => {
  server.listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    throw new Failure(`Port ${String(port)} is in use. Pass another with --port`, exitCodes.usage);
  }
  return (server.address() as AddressInfo).port;
};

/** Serves the board until a signal ends the process. */
const serveBoard = async (target: BoardTarget, packages: readonly PackageDescriptor[]): Promise<void> => {
  const { createBoard } = await boardModule();
  // No other command needs it.
  const { createAdaptorServer } = await import("@hono/node-server");
  const run = async (redis: Parameters<typeof createBoard>[0], url: string): Promise<void> => {
    const signal = shutdownSignal();
    const { username } = userInfo();
    const board = createBoard(redis, {
      packages,
      prefix: target.prefix,
      title: withoutCredentials(url).slice(0, 60),
      authorize: (_request, action) => (action === "view" || target.actions ? username : undefined),
      onAction: ({ person, action, thing, outcome }) =>
        write(process.stderr, `${harmless(`${person}: ${action} ${thing.names.join(" ")}: ${outcome}`)}\n`),
      onError: (error) => void write(process.stderr, `kit: ${harmless(String(error))}\n`),
      ...(target.data && { jobData: (value: unknown) => value }),
    });
    let port = 0;
    const { token, handler } = guarded(board, () => port);
    const server = createAdaptorServer({ fetch: handler }) as Server;
    port = await listen(server, target.port);
    const address = `http://127.0.0.1:${String(port)}/?token=${token}`;
    await (target.json
      ? writeJson({ address })
      : write(process.stdout, `The board is open, for one browser: ${address}\n`));
    if (!signal.aborted) await once(signal, "abort");
    server.close();
    server.closeAllConnections();
  };
  await withConnection(target, "kit-board", run, { mayChange: target.actions === true });
};

/** `kit board`. */
export const addBoard = (kit: Command, packages: readonly PackageDescriptor[]): void => {
  targetOptions(kit.command("board"))
    .description("serve web pages about all stored things on this machine, for one browser, until Ctrl-C (@kit/board)")
    .addOption(
      new Option("--port <n>", "port on 127.0.0.1 (default: any free port)").argParser(portOf).default(0, "any"),
    )
    .option("--actions", "allow actions, such as retrying dead letters")
    .option("--data", "show the data of jobs")
    .action(async (target: BoardTarget) => await serveBoard(target, packages));
};
