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
export {
  type ClassicMessage,
  type ClassicNews,
  type ClassicSendOptions,
  createClassicChat,
  fetchChatMessages,
  joinClassicChat,
  leaveClassicChat,
  lookIntoMailbox,
  mail,
  popMail,
  sendChatMessage,
} from "./chat.js";
export { type ClassicConnections, redisConnection } from "./component.js";
export { ClassicConfigs, configKey, setConfig } from "./configuration.js";
export { type ClassicCity, findCity, importCities, importIps, ipToScore } from "./geoip.js";
export { type ClassicKeys, classicKeys } from "./keys.js";
export {
  acquireLock,
  acquireLockBySet,
  acquireLockWithTimeout,
  acquireOwnerlessLock,
  releaseLock,
  releaseOwnerlessLock,
} from "./lock.js";
export {
  BLOCK_BYTES,
  copyLogs,
  type CopyLogsOptions,
  dailyCountryAggregate,
  inflateBlocks,
  processDirectory,
  processLogs,
  readBlocks,
  readLines,
} from "./logs.js";
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
export {
  cleanCountersOnce,
  COUNTER_PRECISIONS,
  type CleanCountersOptions,
  getCounter,
  SAMPLES_KEPT,
  updateCounter,
  type UpdateCounterOptions,
} from "./stats-counters.js";
export { logCommon, logRecent, type MessageOptions, RECENT_KEPT } from "./stats-messages.js";
export {
  accessTime,
  type ClassicSummary,
  getStats,
  SLOWEST_KEPT,
  type SummaryOptions,
  updateStats,
} from "./stats-summaries.js";
export { waitForSync } from "./sync.js";
export { type WatchAttempt, watchLoop, type WatchOutcome } from "./transaction.js";
