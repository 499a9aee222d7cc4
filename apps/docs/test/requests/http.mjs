import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "@kit/core";
import { createLimiter } from "@kit/limiter";
import { addressOf, headersOf, keyOf } from "./requests.mjs";

const redis = await connect({ url: process.env["REDIS_URL"] });
const limits = { perMinute: { count: 3, perMs: 60_000, algorithm: "sliding-window" } };
// While Redis is unreachable, each of two processes enforces half of the limit.
const limiter = createLimiter(redis, "http", { limits, onUnavailable: "local", processes: 2 });

const answer = async (request, response) => {
  const decision = await limiter.consume(keyOf(addressOf(request)));
  for (const [name, value] of Object.entries(headersOf(decision, limits))) response.setHeader(name, value);
  response.writeHead(decision.allowed ? 200 : 429).end(decision.allowed ? "hello" : "too many requests");
};
const server = createServer((request, response) => {
  answer(request, response).catch(() => response.writeHead(500).end());
});
await once(server.listen(Number(process.env["PORT"])), "listening");
console.log(`listens: ${server.address().port}`);
