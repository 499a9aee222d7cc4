import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { eventually, FaultProxy } from "../src/index.js";

/** An echo server that remembers what came in and which of its connections closed. */
interface Echo {
  readonly server: Server;
  readonly sockets: Socket[];
  received: string;
  closed: number;
}

let echo: Echo;
let proxy: FaultProxy;
const clients: Client[] = [];

interface Client {
  readonly socket: Socket;
  received: string;
  chunks: number;
  error: string | undefined;
  closed: boolean;
}

beforeEach(async () => {
  const server = createServer((socket) => {
    mine.sockets.push(socket);
    socket.on("error", () => {});
    socket.on("close", () => (mine.closed += 1));
    socket.on("data", (chunk) => {
      mine.received += chunk.toString();
      socket.write(chunk);
    });
  });
  const mine: Echo = { server, sockets: [], received: "", closed: 0 };
  echo = mine;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  proxy = await FaultProxy.start({ port: (server.address() as AddressInfo).port, seed: 7 });
});

afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  await proxy.close();
  for (const socket of echo.sockets) socket.destroy();
  await new Promise((resolve) => echo.server.close(resolve));
});

async function dial(): Promise<Client> {
  const socket = connect({ port: proxy.port, host: "127.0.0.1", noDelay: true });
  const client: Client = { socket, received: "", chunks: 0, error: undefined, closed: false };
  clients.push(client);
  socket.on("data", (chunk) => {
    client.received += chunk.toString();
    client.chunks += 1;
  });
  socket.on("error", (error: NodeJS.ErrnoException) => (client.error = error.code));
  socket.on("close", () => (client.closed = true));
  await new Promise((resolve) => socket.once("connect", resolve).once("close", resolve));
  return client;
}

const receives = (client: Client, text: string) => eventually(() => expect(client.received).toBe(text));
const isReset = (client: Client) =>
  eventually(() => expect([client.error, client.closed]).toEqual(["ECONNRESET", true]));

/** Proves that what should not arrive does not: something later, on a healthy way, has arrived by then. */
async function roundTrip(): Promise<void> {
  const other = await dial();
  other.socket.write("x");
  await receives(other, "x");
}

describe("FaultProxy", () => {
  it("passes everything both ways, and closes what is closed", async () => {
    const client = await dial();
    client.socket.write("hello");
    await receives(client, "hello");
    client.socket.end();
    await eventually(() => expect([client.closed, echo.closed, client.error]).toEqual([true, 1, undefined]));
    expect(proxy.stats).toEqual({ accepted: 1, droppedBytes: 0, slowedChunks: 0, resets: 0, refused: 0 });
    expect(proxy.url).toBe(`redis://127.0.0.1:${proxy.port}`);
  });

  it("passes the close of the server", async () => {
    const client = await dial();
    client.socket.write("hello");
    await receives(client, "hello");
    echo.sockets[0]?.end();
    await eventually(() => expect([client.closed, client.error]).toEqual([true, undefined]));
  });

  it("passes large data unharmed, at the reader's pace", async () => {
    const client = await dial();
    const text = "0123456789".repeat(300_000);
    client.socket.pause();
    client.socket.write(text);
    await eventually(() => expect(echo.received.length).toBeGreaterThan(0));
    client.socket.resume();
    await eventually(() => expect(client.received.length).toBe(text.length));
    expect(client.received === text).toBe(true);
  });

  it("takes no more from a sender than the receiver reads", async () => {
    const client = await dial();
    await eventually(() => expect(echo.sockets).toHaveLength(1));
    echo.sockets[0]?.pause();
    // More than the buffers of all sockets on the way together.
    client.socket.write(Buffer.alloc(64 * 1024 * 1024));
    const isAllTaken = eventually(() => expect(client.socket.writableLength).toBe(0), { timeoutMs: 500 });
    await expect(isAllTaken).rejects.toThrow("The check did not pass");
  });

  it("loses the next request and resets with up.cutNext, so that the server never sees it", async () => {
    const client = await dial();
    proxy.up.cutNext = 1;
    client.socket.write("lost");
    await isReset(client);
    await roundTrip();
    expect(echo.received).toBe("x");
    expect(proxy.stats).toMatchObject({ droppedBytes: 4, resets: 1 });
    expect(proxy.up.cutNext).toBe(0);
  });

  it("loses the next reply and resets with down.cutNext, after the server has done its work", async () => {
    const client = await dial();
    proxy.down.cutNext = 1;
    client.socket.write("done");
    await isReset(client);
    expect(echo.received).toBe("done");
    expect(client.received).toBe("");
    await roundTrip();
    expect(proxy.stats).toMatchObject({ droppedBytes: 4, resets: 1 });
  });

  it("tears a reply after so many bytes with cutAfterBytes, once", async () => {
    const client = await dial();
    proxy.down.cutAfterBytes = 8;
    client.socket.write("12345");
    await receives(client, "12345");
    client.socket.write("67890");
    await eventually(() => expect([client.received, client.closed]).toEqual(["12345678", true]));
    expect(proxy.stats).toMatchObject({ droppedBytes: 2, resets: 1 });
    expect(proxy.down.cutAfterBytes).toBeUndefined();
    await roundTrip();
  });

  it("forwards nothing through a hole, not even a close, and heal resets what went silent", async () => {
    const client = await dial();
    const ending = await dial();
    ending.socket.write("a");
    await receives(ending, "a");
    proxy.up.hole = true;
    client.socket.write("into the void");
    ending.socket.end("bye");
    await eventually(() => expect(proxy.stats.droppedBytes).toBe("into the voidbye".length));
    proxy.up.hole = false;
    await roundTrip();
    expect(echo.received).toBe("ax");
    client.socket.write("still torn");
    await eventually(() => expect(proxy.stats.droppedBytes).toBe("into the voidbyestill torn".length));
    expect([client.closed, echo.closed]).toEqual([false, 0]);
    proxy.heal();
    await isReset(client);
    await eventually(() => expect(echo.closed).toBe(2));
    await roundTrip();
  });

  it("hides the server's close in a hole downwards", async () => {
    const client = await dial();
    client.socket.write("a");
    await receives(client, "a");
    proxy.down.hole = true;
    echo.sockets[0]?.end("last words");
    await eventually(() => expect(proxy.stats.droppedBytes).toBe("last words".length));
    proxy.down.hole = false;
    await roundTrip();
    expect([client.received, client.closed]).toEqual(["a", false]);
  });

  it("takes connections in a hole and stays silent", async () => {
    proxy.up.hole = true;
    proxy.down.hole = true;
    const client = await dial();
    client.socket.write("anybody?");
    await eventually(() => expect(proxy.stats.droppedBytes).toBe(8));
    expect([client.received, client.closed]).toEqual(["", false]);
  });

  it("delays by latency and jitter, in order", async () => {
    const client = await dial();
    client.socket.write("0");
    await receives(client, "0");
    proxy.up.latencyMs = 30;
    proxy.down.latencyMs = 30;
    proxy.down.jitterMs = 20;
    const startedAt = performance.now();
    for (const digit of "123456789") {
      client.socket.write(digit);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await receives(client, "0123456789");
    // Timers may fire up to a millisecond early by the fine clock.
    expect(performance.now() - startedAt).toBeGreaterThan(58);
  });

  it("keeps the order of what is still delayed when the delay is taken away", async () => {
    const client = await dial();
    proxy.up.latencyMs = 100;
    client.socket.write("slow ");
    await eventually(() => expect(proxy.stats.slowedChunks).toBe(1), { intervalMs: 1 });
    proxy.up.latencyMs = 0;
    client.socket.write("fast");
    await receives(client, "slow fast");
  });

  it("slices what it forwards", async () => {
    const client = await dial();
    client.socket.write("a");
    await receives(client, "a");
    proxy.down.sliceBytes = 1;
    client.chunks = 0;
    client.socket.write("123456789");
    await receives(client, "a123456789");
    expect(client.chunks).toBeGreaterThan(3);
  });

  it("limits the rate", async () => {
    const client = await dial();
    proxy.down.bytesPerSecond = 10_000;
    const startedAt = performance.now();
    client.socket.write("x".repeat(1_000));
    await receives(client, "x".repeat(1_000));
    expect(performance.now() - startedAt).toBeGreaterThan(95);
  });

  it("resets new connections while it refuses, and leaves the old ones alone", async () => {
    const old = await dial();
    old.socket.write("a");
    await receives(old, "a");
    proxy.refuse = true;
    const fresh = await dial();
    await isReset(fresh);
    old.socket.write("b");
    await receives(old, "ab");
    expect(proxy.stats).toMatchObject({ accepted: 1, refused: 1 });
    proxy.heal();
    await roundTrip();
  });

  it("resets every connection at once, both ways", async () => {
    const both = [await dial(), await dial()];
    for (const client of both) client.socket.write("a");
    await eventually(() => expect(both.map(({ received }) => received)).toEqual(["a", "a"]));
    proxy.resetAll();
    await Promise.all(both.map(isReset));
    await eventually(() => expect(echo.closed).toBe(2));
    expect(proxy.stats.resets).toBe(2);
  });

  it("ends a connection when the server cannot be reached", async () => {
    await using lonely = await FaultProxy.start({ port: 1 });
    const socket = connect(lonely.port, "127.0.0.1");
    let isClosed = false;
    socket.on("error", () => {}).on("close", () => (isClosed = true));
    await eventually(() => expect(isClosed).toBe(true));
  });

  it("listens on the port of a proxy that has ended", async () => {
    const { port: listenPort } = proxy;
    await proxy.close();
    const { port } = echo.server.address() as AddressInfo;
    proxy = await FaultProxy.start({ port, listenPort });
    expect(proxy.port).toBe(listenPort);
    const client = await dial();
    client.socket.write("a");
    await receives(client, "a");
    await expect(FaultProxy.start({ port, listenPort })).rejects.toThrow("EADDRINUSE");
  });

  it("stops listening and ends all connections at close, which may be called twice", async () => {
    const client = await dial();
    client.socket.write("a");
    await receives(client, "a");
    const { port } = proxy;
    await proxy.close();
    await proxy.close();
    await eventually(() => expect(client.closed).toBe(true));
    const late = connect(port, "127.0.0.1");
    const code = await new Promise((resolve) => late.once("error", (e: NodeJS.ErrnoException) => resolve(e.code)));
    expect(code).toBe("ECONNREFUSED");
  });
});
