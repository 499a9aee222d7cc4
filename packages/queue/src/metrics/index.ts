export { queueMetrics } from "./metrics.js";

export type { QueueMetrics, QueueMetricsOptions } from "./metrics.js";
export type { MetricSample } from "@kit/core/toolkit";
