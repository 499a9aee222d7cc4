export { completeMember, joinGuild } from "./autocomplete.js";
export { createClassicChat, fetchChatMessages, sendChatMessage } from "./chat.js";
export { ClassicConfigs, setConfig } from "./configuration.js";
export { findCity, importIps } from "./geoip.js";
export { classicKeys } from "./keys.js";
export { acquireLockBySet, releaseLock } from "./lock.js";
export { copyLogs, readBlocks } from "./logs.js";
export {
  purchaseItem,
  purchaseItemWithItemLock,
  purchaseItemWithLock,
  purchaseItemWithoutLock,
  purchaseItemWithOwnerlessLock,
  type PurchaseResult,
} from "./market.js";
export { enqueue, executeLater, moveDueOnce, workOnQueuesOnce } from "./queue.js";
export {
  acquireFairSemaphore,
  acquireSemaphore,
  acquireSemaphoreWithLock,
  releaseFairSemaphore,
  releaseSemaphore,
} from "./semaphore.js";
export { updateToken, updateTokenPipeline } from "./session.js";
export { cleanCountersOnce, COUNTER_PRECISIONS, SAMPLES_KEPT, updateCounter } from "./stats-counters.js";
export { updateStats } from "./stats-summaries.js";
