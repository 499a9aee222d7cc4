import { createServer } from "node:net";

// A port and its cluster bus port (10,000 above) both lie below 32,768, where neither Linux nor macOS takes the ports
// of outgoing connections. A client that reconnects to a dead server's port in that other range can be given the very
// port it dials, connect to itself, and keep the server from coming back.
const FIRST_PORT = 15_000;
const LAST_PORT = 22_767;
const BUS_OFFSET = 10_000;

const handedOut = new Set<number>();

/** A port that is free on loopback now, and its bus port too if `withBus`. Another process may still take it first. */
export async function freePort(withBus: boolean): Promise<number> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1));
    if (handedOut.has(port)) continue;
    handedOut.add(port);
    if ((await isFree(port)) && (!withBus || (await isFree(port + BUS_OFFSET)))) return port;
    handedOut.delete(port);
  }
  throw new Error(`No free port on 127.0.0.1 from ${FIRST_PORT} to ${LAST_PORT}`);
}

/** Lets this process hand the port out again. */
export function returnPort(port: number): void {
  handedOut.delete(port);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
