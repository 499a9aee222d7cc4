import { Readable } from "node:stream";
import { connect } from "@kit/core";
import { createReceiver, createShipper } from "@kit/logship";

const redis = await connect();

// On the web server: never more than 64 MiB in Redis. At the limit the source is held up.
const shipper = createShipper(redis, "web", { limitBytes: 64 * 1024 * 1024, consumers: ["status-codes"] });
const { lines, sha256 } = await shipper.send("access.log", Readable.from(["GET /a 200\n", "GET /b 404\nGET /c 200\n"]));
console.log(lines, sha256.slice(0, 8));
// prints: 3 e72a9391
await shipper.closeChannel();

// Elsewhere, as one of any number of consumers: each line counts once in its results.
const receiver = createReceiver(redis, "web", { consumer: "status-codes" });
const summary = await receiver.run((batch, results) => {
  for (const line of batch) results.increment("status", line.split(" ")[2] ?? "none");
});
console.log(summary.files, summary.lines, (await receiver.results("status")).get("200"));
// prints: 1 3 2

await receiver.close();
// This also deletes its results. A channel that is only closed refuses further files.
await shipper.deleteChannel();
await shipper.close();
await redis.close();
