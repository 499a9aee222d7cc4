export { type QueueHealth, queueHealth, type WorkerHealth, workerHealth } from "./health.js";
export { Presence, type WorkerNow } from "./presence.js";
