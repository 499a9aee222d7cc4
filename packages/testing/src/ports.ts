import { createSocket, type Socket } from "node:dgram";
import { createServer } from "node:net";

// A port and its cluster bus port (10,000 above) both lie below 32,768, where neither Linux nor macOS takes the ports
// of outgoing connections. A client that reconnects to a dead server's port in that other range can be given the very
// port it dials, connect to itself, and keep the server from coming back.
const FIRST_PORT = 15_000;
const LAST_PORT = 22_767;
const BUS_OFFSET = 10_000;

/**
 * A socket by UDP for each port that was handed out: it keeps the port from other processes also while its server is
 * stopped, and the system closes it with this process. Sentinels would make a foreign server on that port a replica.
 */
const reserved = new Map<number, Socket>();

/**
 * A port that is free on loopback now, and its bus port too if `withBus`. No other process gets it from here before
 * `returnPort`; a program that asks elsewhere may still take it first.
 */
export async function freePort(withBus: boolean): Promise<number> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1));
    if (!(await reserve(port))) continue;
    if ((await isFree(port)) && (!withBus || (await isFree(port + BUS_OFFSET)))) return port;
    returnPort(port);
  }
  throw new Error(`No free port on 127.0.0.1 from ${FIRST_PORT} to ${LAST_PORT}`);
}

/** Lets this process and others hand the port out again. */
export function returnPort(port: number): void {
  reserved.get(port)?.close();
  reserved.delete(port);
}

function reserve(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket("udp4");
    socket.once("error", () => {
      socket.close();
      resolve(false);
    });
    socket.bind({ port, address: "127.0.0.1", exclusive: true }, () => {
      socket.unref();
      reserved.set(port, socket);
      resolve(true);
    });
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
