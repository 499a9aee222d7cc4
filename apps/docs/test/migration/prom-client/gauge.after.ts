import { createStats } from "@kit/stats";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);
const stats = createStats(redis);

const open = new Set(["ann", "bob"]);
// Nothing is stored: the number is read for each exposition, and is of this process alone.
const sessions = {
  metrics: () => [{ name: "sessions", type: "gauge" as const, help: "Open sessions", value: open.size }],
};

const { text } = await stats.expose({ include: [sessions] });
for (const line of text.trim().split("\n")) console.log(line);
// prints: # HELP sessions Open sessions
// prints: # TYPE sessions gauge
// prints: sessions 2

await stats.close();
redis.disconnect();
