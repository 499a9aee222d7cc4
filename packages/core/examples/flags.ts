import { connect } from "@kit/core";
import { createFlags } from "@kit/core/config";

const redis = await connect();

// While the flag is unknown, the shop is open.
const flags = createFlags(redis, { maintenance: { whenUnknown: false } });
await flags.ready();

await flags.set("maintenance", true, { reason: "new disks", until: new Date("2030-01-01T06:00:00Z") });
if (flags.isOn("maintenance")) {
  const { reason, until } = flags.get("maintenance");
  console.log(`closed for ${reason}, back at ${new Date(until ?? 0).toISOString()}`);
}

await flags.close();
await redis.close();
