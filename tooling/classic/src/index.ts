export {
  addContact,
  completeContact,
  completeMember,
  CONTACTS_KEPT,
  joinGuild,
  leaveGuild,
  prefixRange,
  removeContact,
} from "./autocomplete.js";
export { type ClassicConnections, redisConnection } from "./component.js";
export { ClassicConfigs, configKey, setConfig } from "./configuration.js";
export { type ClassicKeys, classicKeys } from "./keys.js";
export {
  acquireLock,
  acquireLockBySet,
  acquireLockWithTimeout,
  acquireOwnerlessLock,
  releaseLock,
  releaseOwnerlessLock,
} from "./lock.js";
export { ClassicMaintenance, maintenanceKey } from "./maintenance.js";
export {
  itemLock,
  listItem,
  type ListResult,
  MARKET_LOCK,
  type MarketOptions,
  type OwnerlessLockOptions,
  purchaseItem,
  purchaseItemWithItemLock,
  purchaseItemWithLock,
  purchaseItemWithoutLock,
  purchaseItemWithOwnerlessLock,
  type PurchaseResult,
} from "./market.js";
export {
  type ClassicCallbacks,
  type ClassicLog,
  type ClassicQueueOptions,
  enqueue,
  executeLater,
  moveDueOnce,
  popDue,
  processEmailOnce,
  sendEmailViaQueue,
  workOnQueuesOnce,
} from "./queue.js";
export {
  acquireFairSemaphore,
  acquireSemaphore,
  acquireSemaphoreWithLock,
  refreshFairSemaphore,
  releaseFairSemaphore,
  releaseSemaphore,
  type SemaphoreOptions,
} from "./semaphore.js";
export {
  checkToken,
  cleanSessions,
  cleanSessionsOnce,
  type CleanOptions,
  SESSIONS_KEPT,
  updateToken,
  updateTokenPipeline,
  VIEWED_KEPT,
} from "./session.js";
export { waitForSync } from "./sync.js";
export { type WatchAttempt, watchLoop, type WatchOutcome } from "./transaction.js";
