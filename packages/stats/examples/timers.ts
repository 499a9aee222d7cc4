import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

await using redis = await connect();
await using stats = createStats(redis);

// Labels that are known only at the end. In a `finally` block it hides the error of the work only if a label is wrong.
const http = stats.distribution("http_ms", { labelNames: ["route", "status"] });
const end = http.startTimer({ route: "/cart" });
let status = 500;
try {
  status = await Promise.resolve(200);
} finally {
  end({ status });
}

// Work that throws is measured, too: its outcome is "error".
const calls = stats.distribution("call_ms", { labelNames: ["outcome"] });
await calls.timed(() => Promise.reject(new Error("sold out"))).catch(() => undefined);
await stats.flush();
const failed = await calls.summary({ outcome: "error" }, { lastMs: 3_600_000 });
console.log(failed.count); // prints: 1

// Not buffered: resolves with the new totals.
const { total } = await calls.record({ outcome: "ok" }, 2_000);
console.log(total.count, total.max); // prints: 1 2000
