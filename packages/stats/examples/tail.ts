import { connect } from "@kit/core";
import { createStats } from "@kit/stats";

await using redis = await connect();
await using stats = createStats(redis);

const checkout = stats.messages("checkout");
checkout.log("error", "No answer from the bank");
await stats.flush();

// Live, until the signal aborts; here after the first two.
const ending = new AbortController();
for await (const { level, text } of checkout.tail({ minLevel: "error", last: 1, signal: ending.signal })) {
  console.log(level, text);
  if (level === "fatal") ending.abort();
  else checkout.log("fatal", "The bank is gone");
}
// prints: error No answer from the bank
// prints: fatal The bank is gone
