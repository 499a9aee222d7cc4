import { once } from "node:events";
import { connect } from "@kit/core";
import { createLimiter } from "@kit/limiter";
import express from "express";
import { rateLimit } from "express-rate-limit";
import { storeOf } from "./stores.mjs";

const redis = await connect({ url: process.env["REDIS_URL"] });
const [limit, windowMs] = [3, 60_000];
const limits = { perMinute: { count: limit, perMs: windowMs, algorithm: "sliding-window" } };
const store = storeOf(createLimiter(redis, "express", { limits }), limit);

const app = express().set("trust proxy", "loopback, 10.0.0.0/8");
app.use(rateLimit({ store, limit, windowMs, standardHeaders: "draft-8", ipv6Subnet: 64 }));
app.get("/", (_request, response) => {
  response.send("hello");
});
const server = app.listen(Number(process.env["PORT"]));
await once(server, "listening");
console.log(`listens: ${server.address().port}`);
