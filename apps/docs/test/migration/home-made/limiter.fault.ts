import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);

// The process ended between INCR and EXPIRE.
await redis.incr("limit:ann");

// From then on nothing gives the key an end: it counts to the limit, and refuses the user for good.
for (let call = 2; call <= 4; call++) await redis.incr("limit:ann");
console.log(await redis.get("limit:ann"), await redis.ttl("limit:ann")); // prints: 4 -1

redis.disconnect();
