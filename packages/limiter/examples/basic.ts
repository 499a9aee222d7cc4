import { connect } from "@kit/core";
import { createLimiter } from "@kit/limiter";

const redis = await connect();
const logins = createLimiter(redis, "logins", {
  limits: {
    perMinute: { count: 2, perMs: 60_000, algorithm: "sliding-window" },
    perDay: { count: 50, perMs: 86_400_000 },
  },
});

await logins.reset("203.0.113.7"); // Only so that this program can run again.
for (let attempt = 1; attempt <= 3; attempt++) {
  const { allowed, remaining, refusedBy } = await logins.consume("203.0.113.7");
  console.log(allowed, remaining, refusedBy);
}
// prints: true 1 null
// prints: true 0 null
// prints: false 0 perMinute

await logins.close();
await redis.close();
