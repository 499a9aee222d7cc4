import { serve } from "@hono/node-server";
import { connect } from "@kit/core";
import { createLimiter } from "@kit/limiter";
import { Hono } from "hono";
import { rateLimiter } from "hono-rate-limiter";
import { addressOf, keyOf } from "./requests.mjs";
import { storeOf } from "./stores.mjs";

const redis = await connect({ url: process.env["REDIS_URL"] });
const [limit, windowMs] = [3, 60_000];
const limits = { perMinute: { count: limit, perMs: windowMs, algorithm: "sliding-window" } };
const store = storeOf(createLimiter(redis, "hono", { limits }), limit);

const app = new Hono();
app.use(rateLimiter({ store, limit, windowMs, keyGenerator: (c) => keyOf(addressOf(c.env.incoming)) }));
app.get("/", (c) => c.text("hello"));
serve({ fetch: app.fetch, port: Number(process.env["PORT"]) }, ({ port }) => console.log(`listens: ${port}`));
