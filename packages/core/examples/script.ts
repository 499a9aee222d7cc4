import { connect, defineScript, keyspace } from "@kit/core";

const keys = keyspace("visits");

/** Counts each visitor once; sent twice, it counts once. */
const visit = defineScript({
  name: "visits.add",
  source: `
    local visitors = KEYS[1]
    local visitor = ARGV[1]
    local ttlMs = ARGV[2]
    redis.call("SADD", visitors, visitor)
    redis.call("PEXPIRE", visitors, ttlMs)
    return redis.call("SCARD", visitors)
  `,
  keys: ["visitors"],
  args: ["visitor", "ttlMs"],
  idempotent: true,
  reply: Number,
});

const redis = await connect();
for (const visitor of ["ada", "lin", "ada"]) {
  const visitors = keys.key("front page", "visitors");
  console.log(await visit.run(redis, { visitors }, { visitor, ttlMs: 60_000 }));
}
await redis.close();
