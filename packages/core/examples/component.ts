import { connect } from "@kit/core";
import { createComponent, withComponent } from "@kit/core/config";

const redis = await connect();

const logs = createComponent(redis, "logs");
const logRecent = withComponent(logs, async (db, app: string, line: string) => {
  await db.lpush(`recent:${app}`, line);
  await db.expire(`recent:${app}`, 3_600);
  return await db.llen(`recent:${app}`);
});

// The operator of the application says where the logs go, now and later; callers do not notice.
await logs.config.set({ url: process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379" });
console.log(await logRecent("shop", "hello"));
console.log(await logRecent("shop", "again"), logs.state);

await logs.close();
await redis.close();
