import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@kit/core";
import { type CounterSink, createLogJob, dailyCountry } from "@kit/logship";

const directory = await mkdtemp(join(tmpdir(), "logs-"));
const line = (address: string): string => `${address} - - [01/Mar/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2326\n`;
await writeFile(join(directory, "access.log"), `${line("192.0.2.1")}${line("203.0.113.9")}\n${line("192.0.2.7")}`);

const redis = await connect();
const job = createLogJob(redis, "countries", { directory });
const locator = { country: (address: string) => (address.startsWith("192.0.2.") ? "DE" : undefined) };

// Exact in Redis: the sums of a commit and its position are stored together.
await job.run(dailyCountry({ locator }));
const sums = [...(await job.results("country"))].sort(([one], [other]) => (one < other ? -1 : 1));
for (const [field, count] of sums) console.log(field, count);
// prints: 2026-03-01 DE 2
// prints: 2026-03-01 unknown 1
// prints: unreadable 1

// Exact elsewhere: a sink that keeps the last number of each writer beside the sums, in one transaction of its own.
const totals = new Map<string, number>();
const lastOf = new Map<string, number>();
const sink: CounterSink = {
  apply: async (deltas, { writer, seq }) => {
    if (seq <= (lastOf.get(writer) ?? 0)) return;
    for (const { field, by } of deltas) totals.set(field, (totals.get(field) ?? 0) + by);
    lastOf.set(writer, seq);
  },
};
console.log(await job.forward("country", sink), totals.get("2026-03-01 DE"));
// prints: 3 2

await job.close();
await redis.close();
await rm(directory, { recursive: true });
