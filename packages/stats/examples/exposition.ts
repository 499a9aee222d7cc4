import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

const redis = await connect();
const stats = createStats(redis);

const orders = stats.counter("orders_total", { help: "Orders that were paid", labelNames: ["shop"] });
const latency = stats.distribution("request_ms", { help: "Time to answer", bounds: [16, 256] });

const server = createServer((request, response) => {
  if (request.url !== "/metrics") return void response.writeHead(404).end();
  stats.expose({ include: [stats] }).then(
    ({ contentType, text }) => response.setHeader("content-type", contentType).end(text),
    () => response.writeHead(503).end(),
  );
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

orders.inc({ shop: "Köln" }, 3);
for (const ms of [4, 40, 400]) latency.observe(ms);
await stats.flush();

const { port } = server.address() as AddressInfo;
const scraped = await fetch(`http://127.0.0.1:${String(port)}/metrics`);
console.log(scraped.headers.get("content-type")); // prints: text/plain; version=0.0.4; charset=utf-8
for (const line of (await scraped.text()).split("\n").slice(0, 10)) console.log(line);
// prints: # HELP orders_total Orders that were paid
// prints: # TYPE orders_total counter
// prints: orders_total{shop="Köln"} 3
// prints: # HELP request_ms Time to answer
// prints: # TYPE request_ms histogram
// prints: request_ms_bucket{le="16"} 1
// prints: request_ms_bucket{le="256"} 2
// prints: request_ms_bucket{le="+Inf"} 3
// prints: request_ms_sum 444
// prints: request_ms_count 3

server.close();
server.closeAllConnections();
await stats.close();
await redis.close();
