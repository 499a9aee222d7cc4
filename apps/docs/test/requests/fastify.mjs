import rateLimit from "@fastify/rate-limit";
import { connect } from "@kit/core";
import Fastify from "fastify";
import { hitsOf, limitersOf } from "./stores.mjs";

const redis = await connect({ url: process.env["REDIS_URL"] });
const limiters = limitersOf(redis, "fastify");

/** The plugin creates it, and a child for each route with its own limit. */
class LimiterStore {
  #route = "";

  incr(key, callback, timeWindow, max) {
    const done = (decision) => {
      const { hits, leftMs } = hitsOf(decision, max);
      callback(null, { current: hits, ttl: leftMs });
    };
    limiters.get(max, timeWindow).consume(`${this.#route} ${key}`).then(done, callback);
  }

  child({ routeInfo: { method, url } }) {
    const store = new LimiterStore();
    store.#route = `${method}${url}`;
    return store;
  }
}

const app = Fastify({ trustProxy: ["127.0.0.1", "10.0.0.0/8"] });
await app.register(rateLimit, { store: LimiterStore, max: 3, timeWindow: 60_000, enableDraftSpec: true });
app.get("/", () => "hello");
app.get("/search", { config: { rateLimit: { max: 1, timeWindow: 60_000 } } }, () => "found");
app.addHook("onClose", async () => {
  await limiters.close();
  await redis.close();
});
await app.listen({ port: Number(process.env["PORT"]) });
console.log(`listens: ${app.server.address().port}`);
