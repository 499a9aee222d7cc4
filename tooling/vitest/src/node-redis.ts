import { createClient, createCluster } from "redis";
import type { ClientGround, Login } from "./acl.js";

interface NodeRedisClient {
  readonly isOpen: boolean;
  destroy(): void;
  on(event: "error", listener: () => void): unknown;
}

const clientOf = ({ server }: ClientGround, { username, password }: Login): NodeRedisClient => {
  const [address, ...more] = server.nodes.map(({ port }) => ({ host: "127.0.0.1", port }));
  if (server.mode === "single") return createClient({ socket: address!, username, password });
  const rootNodes = [address, ...more].map((socket) => ({ socket: socket! }));
  return createCluster({ rootNodes, defaults: { username, password } });
};

/**
 * The login of a behaviour suite whose packages run on clients of node-redis. The tests' own commands, and other processes, stay
 * on ioredis, and so do clients with options of ioredis.
 */
export const onNodeRedis = (login: Login, fromNodeRedis: (client: never) => object): Login => ({
  ...login,
  connect: (ground) => {
    const client = clientOf(ground, login);
    // It connects again by itself.
    client.on("error", () => undefined);
    ground.defer(() => client.isOpen && client.destroy());
    return fromNodeRedis(client as never);
  },
});
