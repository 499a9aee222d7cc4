import { createClient } from "redis";
import { health } from "@kit/core";
import { fromNodeRedis } from "@kit/core/node-redis";

const client = createClient({ url: process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379" });
await client.on("error", console.error).connect();
const redis = fromNodeRedis(client); // every package takes it in the place of an ioredis client

console.log((await health(redis)).ok); // prints: true
client.destroy();
