import { connect, health, KitUnavailableError, retry } from "@kit/core";

const redis = await connect();

const { ok, server, version, roundTripMs } = await health(redis);
console.log(ok, server, version, roundTripMs); // for example: true redis 7.0.15 0.4

// Tried again, with growing random waits, while the error says that this may help.
const greeting = await retry(
  async () => {
    const text = await redis.get("greeting");
    if (text === null) throw new KitUnavailableError("Nobody has greeted yet", "redis");
    return text;
  },
  { waitMs: 50 },
).catch(() => "hello");
console.log(greeting); // for example: hello

await redis.close();
