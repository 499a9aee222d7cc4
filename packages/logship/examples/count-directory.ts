import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@kit/core";
import { createLogJob } from "@kit/logship";

const directory = await mkdtemp(join(tmpdir(), "logs-"));
await writeFile(join(directory, "access.1.log"), "GET /a 200\nGET /b 404\n");
await writeFile(join(directory, "access.2.log"), "GET /c 200\n");

const redis = await connect();
const job = createLogJob(redis, "by-status", { directory, match: /^access/ });

// Kill this process at any point and start it again, or run several of them: each line counts once.
await job.run((lines, results) => {
  for (const line of lines) results.increment("status", line.split(" ")[2] ?? "none");
});
const counts = await job.results("status");
console.log(counts.get("200"), counts.get("404")); // prints: 2 1

await job.close();
await redis.close();
await rm(directory, { recursive: true });
