import { createStats } from "@kit/stats";
import { Redis } from "ioredis";

const redis = new Redis(process.env["REDIS_URL"]!);

// Two processes, on any machines.
const workers = [1, 2].map((visits) => {
  const stats = createStats(redis);
  stats.counter("visits_total", { help: "Visits" }).inc(visits);
  return stats;
});
for (const stats of workers) await stats.flush();

// Each of them shows the total of all: scrape one.
const { text } = await workers[0]!.expose();
console.log(text.trim().split("\n").at(-1)); // prints: visits_total 3

for (const stats of workers) await stats.close();
redis.disconnect();
