import { Histogram, register } from "prom-client";

const latency = new Histogram({ name: "request_seconds", help: "Time to answer", buckets: [0.5, 1] });
for (const seconds of [0.25, 0.5, 2]) latency.observe(seconds);

const text = await register.getSingleMetricAsString("request_seconds");
for (const line of text.trim().split("\n")) console.log(line);
// prints: # HELP request_seconds Time to answer
// prints: # TYPE request_seconds histogram
// prints: request_seconds_bucket{le="0.5"} 2
// prints: request_seconds_bucket{le="1"} 2
// prints: request_seconds_bucket{le="+Inf"} 3
// prints: request_seconds_sum 2.75
// prints: request_seconds_count 3
