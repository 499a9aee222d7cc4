import { once } from "node:events";
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { fastify } from "fastify";
import { handlers, order, quote, readiness } from "./jobs.mjs";

const redis = await connect({ url: process.env["REDIS_URL"], deadlineMs: 20_000 }); // it may start in a failover
const queue = createQueue(redis, "shop", { maxAttempts: 5 });
const worker = queue.work(handlers, { concurrency: 2 });

const app = fastify();
app.post("/orders", async (request, reply) => {
  const { status, body } = await order(queue, request.body, request.headers["idempotency-key"]);
  return reply.code(status).send(body);
});
app.post("/quotes", async (request, reply) => {
  const { status, body } = await quote(queue, request.body);
  return reply.code(status).send(body);
});
app.get("/health", async (_request, reply) => {
  const { status, body } = await readiness(redis);
  return reply.code(status).send(body);
});
app.get("/alive", () => ({ ok: true }));
await app.listen({ port: Number(process.env["PORT"]), host: "0.0.0.0" });
console.log(`listens: ${app.server.address().port}`);

await once(process, "SIGTERM");
const idle = setInterval(() => app.server.closeIdleConnections(), 100);
await app.close(); // no new requests; those that have begun end
clearInterval(idle);
console.log("closes: worker");
await worker.close({ timeoutMs: 15_000 });
await queue.close();
await redis.close();
