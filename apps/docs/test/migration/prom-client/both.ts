import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createStats } from "@kit/stats";
import { Redis } from "ioredis";
import { collectDefaultMetrics, Registry } from "prom-client";

const redis = new Redis(process.env["REDIS_URL"]!);
const stats = createStats(redis);
const ofProcess = new Registry();
collectDefaultMetrics({ register: ofProcess });

const orders = stats.counter("orders_total", { help: "Orders that were paid" });
orders.inc(3);
await stats.flush();

const server = createServer((_request, response) => {
  Promise.all([ofProcess.metrics(), stats.expose({ scope: "local" })]).then(
    ([first, { contentType, text }]) => response.setHeader("content-type", contentType).end(`${first.trim()}\n${text}`),
    () => response.writeHead(503).end(),
  );
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const { port } = server.address() as AddressInfo;

const scraped = await (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
console.log(scraped.includes("\nprocess_cpu_seconds_total ")); // prints: true
console.log(scraped.includes("\norders_total 3\n")); // prints: true

server.close();
server.closeAllConnections();
await stats.close();
redis.disconnect();
