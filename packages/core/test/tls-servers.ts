import { readFileSync } from "node:fs";
import { once } from "node:events";
import { type AddressInfo, connect as dial, type LookupFunction, type Socket } from "node:net";
import { createServer, type Server } from "node:tls";
import { fileURLToPath } from "node:url";
import { startRedis, type TestRedis } from "@kit/testing";
import { deadPort } from "./harness.js";

const path = (name: string): string => fileURLToPath(new URL(`tls/${name}`, import.meta.url));
export const pem = (name: string): string => readFileSync(path(name), "utf8");

/** How a client reaches servers over TLS. */
export interface Secure {
  readonly ca: string[];
  readonly lookup?: LookupFunction;
}

/** A server that speaks TLS on a port of its own, gone after the test. */
export const tlsServer = async (redis: TestRedis): Promise<{ port: number; secure: Secure }> => {
  const port = await deadPort();
  const settings = {
    "tls-port": String(port),
    "tls-cert-file": path("loopback.crt"),
    "tls-key-file": path("loopback.key"),
    "tls-ca-cert-file": path("loopback.crt"),
    "tls-auth-clients": "no",
  };
  const server = await startRedis({ args: Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]) });
  redis.defer(() => server.stop());
  return { port, secure: { ca: [pem("loopback.crt")] } };
};

const certificates = [0, 1, 2].map((n) => ({ cert: pem(`node${String(n)}.crt`), key: pem(`node${String(n)}.key`) }));

export interface Door {
  readonly name: string;
  readonly port: number;
  readonly server: Server;
  readonly sockets: Set<Socket>;
}

/** A door that speaks TLS in front of each node of a Cluster, with a certificate for that node's name alone. */
export const tlsDoors = (redis: TestRedis<"cluster">): Promise<Door[]> =>
  Promise.all(
    redis.server.nodes.map(async ({ port }, n) => {
      const sockets = new Set<Socket>();
      const server = createServer(certificates[n]!, (near) => {
        const far = dial(port, "127.0.0.1");
        for (const socket of [near, far]) socket.on("error", () => undefined);
        near.pipe(far).pipe(near);
        sockets.add(near).add(far);
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      redis.defer(() => {
        server.close();
        for (const socket of sockets) socket.destroy();
      });
      return { name: `node${String(n)}.test`, port: (server.address() as AddressInfo).port, server, sockets };
    }),
  );

const lookup: LookupFunction = (name, { all }, found) => {
  if (!/^node\d\.test$/.test(name)) found(new Error(`${name} is not known`), "");
  else if (all) found(null, [{ address: "127.0.0.1", family: 4 }]);
  else found(null, "127.0.0.1", 4);
};

/** How a client reaches the doors: only the names of the certificates lead there. */
export const wayTo = (
  redis: TestRedis<"cluster">,
  doors: readonly Door[],
): { natMap: Record<string, { host: string; port: number }>; secure: Required<Secure> } => ({
  natMap: Object.fromEntries(
    redis.server.nodes.map(({ port }, n) => [
      `127.0.0.1:${String(port)}`,
      { host: doors[n]!.name, port: doors[n]!.port },
    ]),
  ),
  secure: { ca: certificates.map(({ cert }) => cert), lookup },
});
