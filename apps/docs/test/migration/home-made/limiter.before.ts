import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);

/** At most three calls a minute of each user. */
async function isAllowed(user: string): Promise<boolean> {
  const calls = await redis.incr(`limit:${user}`);
  // A process that ends here leaves a key that never expires.
  if (calls === 1) await redis.expire(`limit:${user}`, 60);
  return calls <= 3;
}

for (let call = 1; call <= 4; call++) console.log(call, await isAllowed("ann"));
// prints: 1 true
// prints: 2 true
// prints: 3 true
// prints: 4 false

redis.disconnect();
