export { eventsOf } from "./event.js";
export { createQueueEvents } from "./reader.js";

export type { EventError, QueueEvent, QueueEventType } from "./event.js";
export type { QueueEventReader, QueueEventReaderEvents, QueueEventsOptions } from "./reader.js";
