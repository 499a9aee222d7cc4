export { Batcher } from "./batcher.js";
export { Flusher } from "./flusher.js";

export type { BatcherOptions } from "./batcher.js";
export type { FlusherOptions } from "./flusher.js";
