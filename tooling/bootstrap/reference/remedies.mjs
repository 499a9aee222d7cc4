/**
 * The remedy of a program or an operator for each code, for the page of all errors. The comment of the code in the source says when it
 * occurs; only what that does not say stands here. Links are as in `apps/docs`.
 * @type {Readonly<Record<string, string>>}
 */
export const remedies = {
  KIT_AUTH:
    "Look at the user and the password in the address; special characters of a password are percent-encoded there.",
  KIT_BUSY:
    "Find the script: `kit doctor` shows slow commands ([slow-log](../../packages/cli/docs/doctor.md#slow-log)). It is hardly one of kit's, which take well under a millisecond.",
  KIT_CLOSED:
    "Close objects when nobody uses them any more, and make a new one to go on. [The order at the end of a process](production.md#sigterm).",
  KIT_CLUSTER:
    "Repeat it while slots move. `kit doctor` names slots that no node serves ([cluster-slots](../../packages/cli/docs/doctor.md#cluster-slots)). Keys of one script need one hash tag.",
  KIT_COMPONENT_REFUSED:
    "Correct the entry: the earlier connection serves until then. [Components](../../packages/core/docs/config.md#components).",
  KIT_CONFIG_CONFLICT: "Read the entry again, decide anew, and set it.",
  KIT_CONFIG_INVALID: "Correct the value by `issues`. A reader goes on with the last good one.",
  KIT_CONFIG_LOST:
    "Look at the entry: a write that somebody made may have to be made again. [What a failover loses](runbooks/failed-master.md#what-is-lost-and-how-long-it-takes).",
  KIT_CONFIG_MISSING: "Set the entry, or pass a default.",
  KIT_CONFLICT:
    "Repeat it. Where it stays, too many write the same key: use one script, or a [lock](../../packages/lock/README.md).",
  KIT_KEY_TYPE: "Something else wrote the key that the error names. Delete it, or take another `prefix`.",
  KIT_LAYOUT:
    "Finish the upgrade: bring every process to the newer version. [Rolling deploys](versions.md#a-rolling-deploy).",
  KIT_LOADING: "Wait: the server reads its data after a start, or follows a master that is away.",
  KIT_NAME: "Check names that come from outside before you pass them on.",
  KIT_NOSCRIPT:
    "Repeat it. Where it happens often, something runs `SCRIPT FLUSH`, or moves the address between servers.",
  KIT_NO_PERMISSION:
    "Grant what `cause` names. Each package lists its rights: [access](production.md#access); `kit doctor` tries them ([permissions](../../packages/cli/docs/doctor.md#permissions)).",
  KIT_READONLY:
    "The address leads to a replica: [tell the clients the master](runbooks/failed-master.md#tell-the-clients). Clients of `connect()` leave such a server by themselves.",
  KIT_RECOVERED: "Nothing. Close the alert that the first failure opened.",
  KIT_SERVER:
    "Read `cause`, which has the server's own words. `MISCONF`: [when saving fails](runbooks/persistence.md#when-saving-fails).",
  KIT_SERVER_FULL: "Raise `maxmemory`, or find what fills it: [memory](../../packages/cli/docs/doctor.md#memory).",
  KIT_TARGET: "Correct the address: [its forms](../../packages/core/README.md#install).",
  KIT_UNAVAILABLE:
    "Repeat the call later, or reply with 503. `kit doctor` says why no server answers ([reachability](../../packages/cli/docs/doctor.md#reachability)). [When Redis is away](redis-away.md).",
  KIT_UNEXPECTED: "Read `cause` and its stack. Where it lies in kit, please report it.",
  KIT_UNSUPPORTED:
    "Use a client with connections, as `connect()` gives; over HTTP send text. [Limits](../../packages/core/docs/http.md#limits).",
  KIT_UNKNOWN_OUTCOME:
    "Where `retryable` is false, repeat the call only with the `op` of the error; without an `op`, read the state first. Better give the call an id before, outside of `retry`. [A program](../../packages/core/docs/recipes.md). [When Redis is away](redis-away.md#calls).",

  KIT_LOCK_TIMEOUT: "Reply that it is busy, or wait longer. `kit inspect lock NAME` shows who holds it and who waits.",
  KIT_LOCK_LOST:
    "Stop the work: another caller may hold the lock. [Why did I lose my lock?](runbooks/lost-locks.md), by its `reason`.",
  KIT_LOCK_QUEUE_FULL: "Shorten the section, or use a name for each item.",
  KIT_LOCK_NOT_DURABLE:
    "[Durable grants](../../packages/lock/docs/operations.md#durable-grants) says what each requirement needs.",
  KIT_LOCK_SELF_DEADLOCK: "[Reentrancy](../../packages/lock/README.md#limits).",
  KIT_LOCK_QUORUM:
    "Look at `votes`: servers that do not answer, or that started lately. [Quorum locks](../../packages/lock/docs/quorum.md).",
  KIT_LOCK_SAME_SERVER: "Give each client a server of its own.",

  KIT_SEMAPHORE_TIMEOUT:
    "Reply that it is busy, wait longer, or raise the limit with `setPermits`. `kit inspect semaphore NAME` shows who holds how much.",
  KIT_SEMAPHORE_QUEUE_FULL: "Shed load before it queues here.",
  KIT_SEMAPHORE_WEIGHT: "Ask for at most `most`, or raise the limit.",
  KIT_PERMIT_LOST: "Stop the work. [The reasons](runbooks/lost-locks.md#which-reason) are those of a lock.",

  KIT_LIMITER_TIMEOUT: "Reply with 429 and `retryAfterMs`, or raise `waitMs`.",
  KIT_LIMITER_TOKENS: "Split the call, or raise `burst` or `count`.",
  KIT_LIMITER_WAIT: "Use `consume()`, or limits that can [reserve an instant](../../packages/limiter/docs/waiting.md).",
  KIT_LIMITER_BUSY: "Shed load before it gets here. `kit doctor` says whether the server is slow.",

  KIT_QUEUE_FULL: "Slow the producer down. `addAll` sends many jobs in one call.",
  KIT_QUEUE_PAYLOAD: "Store large data elsewhere, and its address in the job.",
  KIT_QUEUE_EVICTION: "[Eviction policies](where-it-runs.md#eviction-policies).",
  KIT_QUEUE_CALL_TIMEOUT:
    "Reply with the id of the job, or wait longer. [Calls](../../packages/queue/docs/adding.md#calls).",
  KIT_QUEUE_FLOW:
    "Choose another id, or treat the call as a repeat: `inspectJob()` shows the job that has it. [Flows](../../packages/queue/docs/flows.md).",
  KIT_JOB_CHILD_FAILED:
    "Read `cause`, and fix what the child failed at. Then redrive the parent: it waits for children that have not ended, and the others do not run again. [Flows](../../packages/queue/docs/flows.md#when-a-child-does-not-complete).",
  KIT_QUEUE_SCHEDULE:
    "Install `croner` beside the queue, or bring all processes to the newer version. [Schedules](../../packages/queue/docs/schedules.md).",
  KIT_QUEUE_ADOPTION:
    "Pause both queues or none, and end the other adoption first. [Moving from BullMQ](migration/bullmq.md).",
  KIT_QUEUE_HEARTBEAT:
    "Read `cause`. Until the worker is made anew, a handler that blocks the main loop for longer than `leaseMs` loses its jobs: [workers](../../packages/queue/docs/workers.md).",
  KIT_JOB_FAILED:
    "Read `error`. When its cause is mended, `kit queue retry QUEUE ID --run` runs the dead letter again.",
  KIT_JOB_RESULT:
    "Do not call again: the work is done. Return less, or store the result elsewhere and return its address; `maxPayloadBytes` of the worker's queue bounds it.",
  KIT_JOB_OUTCOME_LOST:
    "Find out by your own data whether the job ran. Its id is an idempotency key for adding it again.",
  KIT_JOB_LEASE_LOST:
    "End the handler. A handler that blocks the main loop for longer than `leaseMs` loses its lease: [limits](../../packages/queue/README.md#limits).",
  KIT_JOB_TIMEOUT: "Pass `job.signal` on to what the handler calls, or raise `timeoutMs`.",
  KIT_JOB_EXPIRED: "Nothing, if the job makes no sense any more. Else raise `expiresMs`, or add workers.",
  KIT_JOB_CANCELLED: "Nothing: somebody wanted that.",
  KIT_JOB_BACKOFF: "Correct the function `backoff`.",
  KIT_JOB_REFUSED: "Deploy a worker that has a handler of this name and accepts the data, or drop the job.",
  KIT_JOB_UNRECOVERABLE: "It is yours to throw, where another attempt cannot help.",
  KIT_JOB_SNOOZED: "It is yours to throw.",
  KIT_JOB_RATE_LIMITED: "It is yours to throw.",
  KIT_JOB_WAITING: "It is yours to throw. [Flows](../../packages/queue/docs/flows.md#children-that-a-handler-adds).",

  KIT_CHAT_UNKNOWN: "Create the chat first.",
  KIT_CHAT_NOT_MEMBER: "Join again, if the user may.",
  KIT_CHAT_TOO_LARGE: "Store large bodies elsewhere, and their address in the message.",
  KIT_CHAT_FULL: "Wait, or remove members that do not read. [Bounds](../../packages/chat/docs/operations.md#bounds).",
  KIT_CHAT_BUSY: "Slow the sender down.",
  KIT_CHAT_ACK_BEYOND: "Acknowledge only what was fetched.",
  KIT_CHAT_FORKED: "[Failover and lost data](../../packages/chat/docs/operations.md#failover-and-lost-data).",
  KIT_CHAT_TOKEN: "Keep one token for each reader.",

  KIT_LOGSHIP_FENCED: "Let this process end: the other one goes on.",
  KIT_LOGSHIP_RESET: "Start the run again.",
  KIT_LOGSHIP_CHANGED:
    "Ship files that are only appended to. [How files are recognized](../../packages/logship/docs/files.md).",
  KIT_LOGSHIP_CHANNEL_CLOSED: "Ship to another channel.",
  KIT_LOGSHIP_TRIMMED: "[Channels](../../packages/logship/docs/channels.md).",
  KIT_LOGSHIP_TOO_LARGE: "[Channels](../../packages/logship/docs/channels.md) says what counts towards the limit.",
  KIT_LOGSHIP_EXPIRED: "Nothing, if it is rare. Often: the server is slow, or the process stalls.",
  KIT_LOGSHIP_INTERRUPTED: "Ship the source of the stream again, from its beginning.",
  KIT_LOGSHIP_BAD_DATA:
    "Repair the source, or skip it with `onBadData`. [Quarantine](../../packages/logship/README.md#quarantine-what-cannot-be-read).",
  KIT_LOGSHIP_BROKEN_OFF: "Its shipper ended early: see whether it runs again.",
  KIT_LOGSHIP_LINE: "Choose another `onLongLine` or `onInvalidText`, or convert the file.",
  KIT_LOGSHIP_DROPPED: "Use a new name for the consumer.",
  KIT_LOGSHIP_BUSY: "Delete the job when nothing works on it.",
  KIT_LOGSHIP_RESULT: "Choose another key or field for the result. [Results](../../packages/logship/docs/results.md).",

  KIT_STATS_EXPIRED: "Compare the total with your own records, if it must be exact.",
  KIT_STATS_OVERFLOW: "Count in a larger unit, or in a new series.",
  KIT_STATS_TIME: "Correct the clock of the machine, or the time that you pass.",

  KIT_AUTOCOMPLETE_DAMAGED:
    "[Rebuild](../../packages/autocomplete/README.md#rebuild) the index, and find out what deleted its keys: often eviction.",
  KIT_AUTOCOMPLETE_EMPTY: "Look at the source of the entries. `allowEmpty` clears the index on purpose.",
  KIT_AUTOCOMPLETE_ENTRY: "Skip the entry, or correct it by `fault`.",
  KIT_AUTOCOMPLETE_REBUILD: "Let one process rebuild at a time, under a [lock](../../packages/lock/README.md).",

  KIT_GEOIP_CORRUPT: "Import again, and find out what deleted the keys: often eviction.",
  KIT_GEOIP_IMPORT: "Correct the input, or choose the source that fits it.",
  KIT_GEOIP_NOT_LOADED: "Await `ready()` before the first look-up.",
  KIT_GEOIP_NO_VERSION: "[Import](../../packages/geoip/README.md#import-a-vendors-data-replace-it-go-back) a database.",
  KIT_GEOIP_STAGING: "Use a server with `noeviction`.",
  KIT_GEOIP_STALE: "Import a newer database.",
};
