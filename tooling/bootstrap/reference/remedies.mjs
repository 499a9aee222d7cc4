/**
 * The remedy of a program or an operator for each code, for the page of all errors. The comment of the code in the source says when it
 * occurs; this table has only what the comment does not say. Links are as in `apps/docs`.
 * @type {Readonly<Record<string, string>>}
 */
export const remedies = {
  KIT_AUTH: "Check the user and the password in the address. Percent-encode special characters of the password.",
  KIT_BUSY:
    "Find the script: `kit doctor` shows slow commands ([slow-log](../../packages/cli/docs/doctor.md#slow-log)). kit's own scripts take well under a millisecond.",
  KIT_CLOSED:
    "Close an object only when nothing uses it any longer. See [the order at the end of a process](production.md#sigterm).",
  KIT_CLUSTER:
    "While slots move, repeat the call. `kit doctor` names slots that no node serves ([cluster-slots](../../packages/cli/docs/doctor.md#cluster-slots)). All keys of a script need the same hash tag.",
  KIT_COMPONENT_REFUSED: "Correct the entry: see [components](../../packages/core/docs/config.md#components).",
  KIT_CONFIG_CONFLICT: "Apply your change to the value that is stored now.",
  KIT_CONFIG_INVALID: "Correct what `issues` names. Readers keep the last good value.",
  KIT_CONFIG_LOST:
    "Check the entry: a lost write may have to be repeated. See [what a failover loses](runbooks/failed-master.md#what-is-lost-and-how-long-it-takes).",
  KIT_CONFIG_MISSING: "Set the entry, or pass a default.",
  KIT_CONFLICT:
    "Repeat the call. If the error persists, too many writers change the same key: use one script, or a [lock](../../packages/lock/README.md).",
  KIT_KEY_TYPE: "Another program wrote the key that the error names. Delete the key, or use another `prefix`.",
  KIT_LAYOUT:
    "Finish the upgrade: bring every process to the newer version. See [rolling deploys](versions.md#a-rolling-deploy).",
  KIT_LOADING: "Wait: the server loads its data after a start, or is a replica of an unreachable master.",
  KIT_NAME: "Check names that come from outside before you pass them on.",
  KIT_NOSCRIPT:
    "Repeat the call. If this happens often, something runs `SCRIPT FLUSH`, or moves the address between servers.",
  KIT_NO_PERMISSION:
    "Grant what `cause` names: see [access](production.md#access). `kit doctor` tests each right ([permissions](../../packages/cli/docs/doctor.md#permissions)).",
  KIT_READONLY:
    "The address leads to a replica: see [tell the clients the master](runbooks/failed-master.md#tell-the-clients). Clients of `connect()` leave such a server themselves.",
  KIT_RECOVERED: "Nothing. Close the alert that the first failure opened.",
  KIT_SERVER:
    "Read `cause`, which has the server's own text. For `MISCONF`, see [when saving fails](runbooks/persistence.md#when-saving-fails).",
  KIT_SERVER_FULL:
    "Raise `maxmemory`, or find what fills the memory: see [memory](../../packages/cli/docs/doctor.md#memory).",
  KIT_TARGET: "Correct the address: see [its forms](../../packages/core/README.md#install).",
  KIT_UNAVAILABLE:
    "Repeat the call later, or reply with 503. `kit doctor` reports why no server answers ([reachability](../../packages/cli/docs/doctor.md#reachability)). See [when Redis is unavailable](redis-away.md).",
  KIT_UNEXPECTED: "Read `cause` and its stack. If the bug is in kit, please report it.",
  KIT_UNSUPPORTED:
    "Use a client with connections. Over HTTP, send text: see [limits](../../packages/core/docs/http.md#limits).",
  KIT_UNKNOWN_OUTCOME:
    "If `retryable` is false and the error has no `op`, read the state before you repeat the call. It is better to give the call an id before, outside of `retry`: see [a program](../../packages/core/docs/recipes.md) and [calls during an outage](redis-away.md#calls).",

  KIT_LOCK_TIMEOUT:
    "Reply that the resource is busy, or wait longer. `kit inspect lock NAME` shows the holder and the waiters.",
  KIT_LOCK_LOST:
    "Stop the work: another caller may hold the lock. Find the `reason` in [Why did I lose my lock?](runbooks/lost-locks.md).",
  KIT_LOCK_QUEUE_FULL: "Shorten the work under the lock, or use a separate lock for each item.",
  KIT_LOCK_NOT_DURABLE:
    "[Durable grants](../../packages/lock/docs/operations.md#durable-grants) says what each requirement needs.",
  KIT_LOCK_SELF_DEADLOCK: "See [reentrancy](../../packages/lock/README.md#limits).",
  KIT_LOCK_QUORUM:
    "Look in `votes` for servers that do not answer or started recently. See [quorum locks](../../packages/lock/docs/quorum.md).",
  KIT_LOCK_SAME_SERVER: "Give each client its own server.",

  KIT_SEMAPHORE_TIMEOUT:
    "Reply that the resource is busy, wait longer, or raise the limit with `setPermits`. `kit inspect semaphore NAME` shows who holds how many permits.",
  KIT_SEMAPHORE_QUEUE_FULL: "Shed load before it reaches the semaphore.",
  KIT_SEMAPHORE_WEIGHT: "Request a weight up to `most`, or raise the limit.",
  KIT_PERMIT_LOST: "Stop the work. Find the `reason` in [the reasons of a lock](runbooks/lost-locks.md#which-reason).",

  KIT_LIMITER_TIMEOUT: "Reply with 429 and `retryAfterMs`, or raise `waitMs`.",
  KIT_LIMITER_TOKENS: "Split the call, or raise `burst` or `count`.",
  KIT_LIMITER_WAIT: "Use `consume()`, or limits that can [reserve an instant](../../packages/limiter/docs/waiting.md).",
  KIT_LIMITER_BUSY: "Check with `kit doctor` whether the server is slow.",

  KIT_QUEUE_FULL: "Slow the producer down. `addAll` sends many jobs in one call.",
  KIT_QUEUE_PAYLOAD: "Store large data elsewhere, and its address in the job.",
  KIT_QUEUE_EVICTION: "See [eviction policies](where-it-runs.md#eviction-policies).",
  KIT_QUEUE_CALL_TIMEOUT:
    "Reply with the id of the job, or wait longer. See [calls](../../packages/queue/docs/adding.md#calls).",
  KIT_QUEUE_FLOW:
    "Choose another id, or treat the call as a repeat: `inspectJob()` shows the job with this id. See [flows](../../packages/queue/docs/flows.md).",
  KIT_JOB_CHILD_FAILED:
    "Read `cause`, and fix what made the child fail. Then redrive the parent: it waits for children that have not ended, and the other children do not run again. See [flows](../../packages/queue/docs/flows.md#when-a-child-does-not-complete).",
  KIT_QUEUE_SCHEDULE:
    "Install `croner` next to the queue, or bring all processes to the newer version. See [schedules](../../packages/queue/docs/schedules.md).",
  KIT_QUEUE_ADOPTION:
    "Pause both queues or neither, and end the other adoption first. See [moving from BullMQ](migration/bullmq.md).",
  KIT_QUEUE_HEARTBEAT:
    "Read `cause`. Until you create a new worker, a handler that blocks the main loop for longer than `leaseMs` loses its jobs: see [workers](../../packages/queue/docs/workers.md).",
  KIT_JOB_FAILED: "Fix the cause of `error`. `kit queue retry QUEUE ID --run` then runs the dead letter again.",
  KIT_JOB_RESULT:
    "Do not call again: the work is done. Return less, or store the result elsewhere and return its address. `maxPayloadBytes` of the worker's queue limits the size.",
  KIT_JOB_OUTCOME_LOST:
    "Find out from your own data whether the job ran. To add it again, use its id as the idempotency key.",
  KIT_JOB_LEASE_LOST:
    "End the handler. A handler that blocks the main loop for longer than `leaseMs` loses its lease: see [limits](../../packages/queue/README.md#limits).",
  KIT_JOB_TIMEOUT: "Pass `job.signal` on to what the handler calls, or raise `timeoutMs`.",
  KIT_JOB_EXPIRED: "Nothing, if the job is no longer useful. Otherwise raise `expiresMs`, or add workers.",
  KIT_JOB_CANCELLED: "Nothing.",
  KIT_JOB_BACKOFF: "Correct the function `backoff`.",
  KIT_JOB_REFUSED: "Deploy a worker that has a handler of this name and accepts the data, or drop the job.",
  KIT_JOB_UNRECOVERABLE: "Nothing: your handler throws it when another attempt cannot help.",
  KIT_JOB_SNOOZED: "Nothing: your handler throws it on purpose.",
  KIT_JOB_RATE_LIMITED: "Nothing: your handler throws it on purpose.",
  KIT_JOB_WAITING:
    "Nothing: your handler throws it on purpose. See [flows](../../packages/queue/docs/flows.md#children-that-a-handler-adds).",

  KIT_CHAT_UNKNOWN: "Create the chat first.",
  KIT_CHAT_NOT_MEMBER: "Let the user join, if this is allowed.",
  KIT_CHAT_TOO_LARGE: "Store large bodies elsewhere, and their address in the message.",
  KIT_CHAT_FULL:
    "Wait, or remove members that do not read. See [bounds](../../packages/chat/docs/operations.md#bounds).",
  KIT_CHAT_BUSY: "Slow the sender down.",
  KIT_CHAT_ACK_BEYOND: "Acknowledge only messages that were fetched.",
  KIT_CHAT_FORKED: "See [failover and lost data](../../packages/chat/docs/operations.md#failover-and-lost-data).",
  KIT_CHAT_TOKEN: "Keep one token for each reader.",

  KIT_LOGSHIP_FENCED: "Let this process end: the other process continues.",
  KIT_LOGSHIP_RESET: "Start the run again.",
  KIT_LOGSHIP_CHANGED:
    "Ship files that are only appended to. See [how files are recognized](../../packages/logship/docs/files.md).",
  KIT_LOGSHIP_CHANNEL_CLOSED: "Ship to another channel.",
  KIT_LOGSHIP_TRIMMED: "See [channels](../../packages/logship/docs/channels.md).",
  KIT_LOGSHIP_TOO_LARGE: "[Channels](../../packages/logship/docs/channels.md) says what counts towards the limit.",
  KIT_LOGSHIP_EXPIRED: "Nothing, if it is rare. Otherwise the server is slow, or the process stalls.",
  KIT_LOGSHIP_INTERRUPTED: "Ship the source of the stream again, from its beginning.",
  KIT_LOGSHIP_BAD_DATA:
    "Repair the source, or skip it with `onBadData`. See [quarantine](../../packages/logship/README.md#quarantine-what-cannot-be-read).",
  KIT_LOGSHIP_BROKEN_OFF: "The file's shipper ended early. Check whether it runs again.",
  KIT_LOGSHIP_LINE: "Choose another `onLongLine` or `onInvalidText`, or convert the file.",
  KIT_LOGSHIP_DROPPED: "Use a new name for the consumer.",
  KIT_LOGSHIP_BUSY: "Delete the job when no worker has a file.",
  KIT_LOGSHIP_RESULT:
    "Choose another key or field for the result. See [results](../../packages/logship/docs/results.md).",

  KIT_STATS_EXPIRED: "Compare the total with your own records, if it must be exact.",
  KIT_STATS_OVERFLOW: "Count in a larger unit, or in a new series.",
  KIT_STATS_TIME: "Correct the clock of the machine, or the time that you pass.",

  KIT_AUTOCOMPLETE_DAMAGED:
    "[Rebuild](../../packages/autocomplete/README.md#rebuild) the index, and find out what deleted its keys (often eviction).",
  KIT_AUTOCOMPLETE_EMPTY: "Check the source of the entries. To clear the index on purpose, set `allowEmpty`.",
  KIT_AUTOCOMPLETE_ENTRY: "Skip the entry, or correct what `fault` names.",
  KIT_AUTOCOMPLETE_REBUILD: "Run one rebuild at a time, under a [lock](../../packages/lock/README.md).",

  KIT_GEOIP_CORRUPT: "Import again, and find out what deleted the keys (often eviction).",
  KIT_GEOIP_IMPORT: "Correct the input, or choose the source that fits its format.",
  KIT_GEOIP_NOT_LOADED: "Use the mode `local`, and await `ready()` first.",
  KIT_GEOIP_NO_VERSION: "[Import](../../packages/geoip/README.md#import-a-vendors-data-replace-it-go-back) a database.",
  KIT_GEOIP_STAGING: "Use a server with `noeviction`.",
  KIT_GEOIP_STALE: "Import a newer database.",
};
