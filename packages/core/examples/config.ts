import { connect } from "@kit/core";
import { ConfigConflictError, createConfig } from "@kit/core/config";
import * as v from "valibot";

const redis = await connect();

const search = createConfig(redis, "search", {
  schema: v.object({ host: v.string(), limit: v.pipe(v.number(), v.integer(), v.minValue(1)) }),
  default: { host: "search-1", limit: 20 },
});
await search.ready();
search.on("change", (next, previous) => console.log(`limit ${previous?.limit} → ${next.limit}`));

// From memory: frozen, and without a round trip.
console.log(search.current.host, search.state);

const version = await search.set({ host: "search-1", limit: 50 }, { author: "ada" });
try {
  // A writer that read before Ada's write.
  await search.set({ host: "search-2", limit: 20 }, { expected: null });
} catch (error) {
  if (!(error instanceof ConfigConflictError)) throw error;
  console.log(`revision ${error.version?.revision} came first`);
}
await search.set({ host: "search-1", limit: 80 }, { expected: version });
await search.rollback(1);
for (const { revision, value } of await search.history({ limit: 2 })) console.log(revision, JSON.stringify(value));

await search.close();
await redis.close();
