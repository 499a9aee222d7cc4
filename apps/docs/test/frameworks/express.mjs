import { once } from "node:events";
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import express from "express";
import { handlers, order, quote, readiness } from "./jobs.mjs";

const redis = await connect({ url: process.env["REDIS_URL"], deadlineMs: 20_000 }); // it may start in a failover
const queue = createQueue(redis, "shop", { maxAttempts: 5 });
const worker = queue.work(handlers, { concurrency: 2 });

const app = express().use(express.json());
app.post("/orders", async (request, response) => {
  const { status, body } = await order(queue, request.body, request.get("idempotency-key"));
  response.status(status).json(body);
});
app.post("/quotes", async (request, response) => {
  const { status, body } = await quote(queue, request.body);
  response.status(status).json(body);
});
app.get("/health", async (_request, response) => {
  const { status, body } = await readiness(redis);
  response.status(status).json(body);
});
app.get("/alive", (_request, response) => {
  response.json({ ok: true });
});
const server = app.listen(Number(process.env["PORT"]));
await once(server, "listening");
console.log(`listens: ${server.address().port}`);

await once(process, "SIGTERM");
const idle = setInterval(() => server.closeIdleConnections(), 100);
await once(server.close(), "close"); // no new requests; those that have begun end
clearInterval(idle);
console.log("closes: worker");
await worker.close({ timeoutMs: 15_000 });
await queue.close();
await redis.close();
