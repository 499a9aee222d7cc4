import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";

const redis = await connect();
const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail");
const worker = queue.work({ email: ({ data }) => console.log(`to ${data.to}`) });

const server = createServer(({ url }, response) => {
  void queue.health().then(({ isAlive, isReady }) => {
    response.writeHead((url === "/ready" ? isReady : isAlive) ? 200 : 503).end();
  });
});
await once(server.listen(0), "listening");

const probe = async (path: string): Promise<number> => {
  const { port } = server.address() as AddressInfo;
  return (await fetch(`http://127.0.0.1:${String(port)}${path}`)).status;
};
while ((await probe("/ready")) !== 200); // the worker is connecting
console.log(await probe("/alive")); // prints: 200
await worker.pause();
console.log(await probe("/ready")); // prints: 503
console.log(await probe("/alive")); // prints: 200

server.close();
server.closeAllConnections();
await queue.close();
await redis.close();
