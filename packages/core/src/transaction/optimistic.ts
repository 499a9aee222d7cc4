import {
  type RedisArgument,
  type RedisLike,
  Deadline,
  isReplyError,
  passes,
  KitClosedError,
  KitConflictError,
  KitError,
  KitUnavailableError,
  KitUnknownOutcomeError,
  serverError,
  integer,
  resolve,
  type RulesOf,
  signal as signalRule,
  type ExclusiveConnection,
  backoffMs,
  pause,
  reading,
  type ClientContext,
  withContext,
} from "../kernel/index.js";

/** One try of an optimistic transaction, on a connection that is not shared meanwhile. */
export interface Transaction {
  /**
   * Runs a command immediately on the watching connection. Use it for reads that do not block. If a watched key changes after that,
   * EXEC does nothing.
   */
  call(command: string, ...args: RedisArgument[]): Promise<unknown>;
  /** Adds a write to the transaction, which is executed after `attempt` has returned. */
  queue(command: string, ...args: RedisArgument[]): void;
}

/** How long to retry an optimistic transaction. */
export interface OptimisticOptions {
  /**
   * The time after which no new try starts, in milliseconds from the call.
   *
   * @default 5000
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait between two tries: the call rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

const optimisticRules = {
  waitMs: integer(0, undefined, 5_000),
  signal: signalRule,
} satisfies RulesOf<OptimisticOptions>;

/** The outcome of an optimistic transaction. */
export interface OptimisticResult<T> {
  /** The result of the last attempt. */
  readonly value: T;
  /** The number of attempts. */
  readonly attempts: number;
}

const commandDeadlineMs = 2_000;
const baseMs = 2;
const capMs = 100;

/** Commands that would silently end or replace the watch, or the connection. */
const reserved = /^(MULTI|EXEC|DISCARD|UNWATCH|RESET|QUIT|SELECT|[PS]?SUBSCRIBE)$/i;
/** Commands that wait. Between MULTI and EXEC they do not wait. */
const blocking = /^(B[LRZ]\w+|WAIT\w*|XREAD\w*( (?!STREAMS )\S+)* BLOCK) /i;

/**
 * Runs one transaction: WATCH, `attempt`, MULTI, the queued writes, EXEC. If one of `keys` changes in between, nothing is written.
 *
 * It runs on a dedicated connection. On a shared connection, other commands would run between WATCH and EXEC. Up to eight
 * connections per client and prefix are opened on demand. On a Cluster all keys must be in the same slot.
 *
 * If a key changed, `attempt` runs again after a jittered wait that doubles up to 100 ms. So `attempt` must have no effects except
 * the writes that it queues. Competing callers are not served in order: for a busy key, use a lock instead. If an attempt queues
 * nothing, EXEC is not sent.
 *
 * After some failures kit only tries again: the connection broke or went silent before EXEC was sent, or the server refused
 * temporarily (a failover, a moving slot, a long script). A write that fails during EXEC, for example because of a key's type, does
 * not undo the others: Redis does not roll back.
 *
 * @throws {KitConflictError} a key changed during every try until `waitMs` had passed; nothing was changed.
 * @throws {KitUnavailableError} no connection was available within `waitMs`; nothing was changed.
 * @throws {KitUnknownOutcomeError} the connection broke after EXEC was sent.
 * @throws {KitError} a write failed. If other writes stay, the message reports it.
 * @throws the error of `attempt`; nothing was changed.
 * @throws {TypeError | RangeError} an option is invalid.
 *
 * @example
 * await optimistic(redis, ["stock"], async (tx) => {
 *   const left = Number(await tx.call("GET", "stock"));
 *   if (left > 0) tx.queue("DECR", "stock");
 *   return left > 0;
 * });
 */
export const optimistic = async <T>(
  redis: RedisLike | ClientContext,
  keys: readonly string[],
  attempt: (transaction: Transaction) => Promise<T>,
  options: OptimisticOptions = {},
): Promise<OptimisticResult<T>> => {
  const { waitMs, signal } = resolve("options", options, optimisticRules);
  const [first] = keys;
  if (first === undefined) throw new RangeError("Expected `keys` to name at least one key");
  return withContext(redis, (context) =>
    untilUndisturbed({ context, keys, first, signal, deadline: Deadline.in(waitMs) }, attempt),
  );
};

interface OptimisticRequest {
  readonly context: ClientContext;
  readonly keys: readonly string[];
  readonly first: string;
  readonly signal: AbortSignal | undefined;
  readonly deadline: Deadline;
}

type Attempt<T> = (transaction: Transaction) => Promise<T>;

const untilUndisturbed = async <T>(request: OptimisticRequest, attempt: Attempt<T>): Promise<OptimisticResult<T>> => {
  const { signal, deadline } = request;
  for (let attempts = 1; ; attempts++) {
    signal?.throwIfAborted();
    const outcome = await once(request, attempt);
    if ("value" in outcome) return { value: outcome.value, attempts };
    const wait = backoffMs(attempts + 1, baseMs, capMs);
    if (wait >= deadline.remainingMs) throw outcome.failure ?? conflict(request.keys, attempts);
    await pause(wait, signal);
  }
};

const namesOf = (keys: readonly string[]): string => keys.join(", ");

const conflict = (keys: readonly string[], attempts: number): KitConflictError =>
  new KitConflictError(
    `The transaction on ${namesOf(keys)} wrote nothing: other writers changed its keys at each of ${String(attempts)} tries`,
    attempts,
  );

/** One try: its value, or the failure after which another try may follow. Without a failure, a watched key changed. */
type Try<T> = { readonly value: T } | { readonly failure: KitError | undefined };

const once = async <T>(request: OptimisticRequest, attempt: Attempt<T>): Promise<Try<T>> => {
  const connection = await checkOut(request);
  const what = `The transaction on ${namesOf(request.keys)}`;
  let isClean = false;
  try {
    // Nothing was executed yet, so a failure of the connection, or a refusal that passes, may be tried again.
    const watched = await attemptOn(connection, connection.call("WATCH", request.keys, commandDeadlineMs), what);
    if ("failure" in watched) return watched;
    const queued: Write[] = [];
    const tried = await run(connection, queued, attempt);
    if ("failure" in tried) return tried;
    if (queued.length === 0) {
      // The attempt needs no transaction; how the watch ends does not matter.
      isClean = await connection.call("UNWATCH", [], commandDeadlineMs).then(
        () => true,
        () => false,
      );
      return tried;
    }
    const replies = await attemptOn(connection, execute(connection, queued, what), what);
    if ("failure" in replies) return replies;
    isClean = true;
    if (replies.value === null) return { failure: undefined };
    const refused = (replies.value as unknown[]).find(isReplyError);
    if (refused)
      throw serverError(refused, `A write of the transaction on ${namesOf(request.keys)} (the other writes were made)`);
    return tried;
  } finally {
    connection.returnToPool(isClean);
  }
};

const checkOut = async ({
  context,
  first,
  keys,
  deadline,
  signal,
}: OptimisticRequest): Promise<ExclusiveConnection> => {
  const what = `A connection for the transaction on ${namesOf(keys)}`;
  // Until the caller's client is connected, a Cluster has no known nodes. A client that has ended stays ended.
  await context.executor.ready(reading(what, deadline, signal));
  return await context.pool("exclusive", undefined, true).checkOut(first, deadline, signal);
};

type Write = readonly [string, ...RedisArgument[]];

/** Runs the caller's code. An error that it throws is the caller's, unless the connection broke meanwhile. */
const run = async <T>(connection: ExclusiveConnection, queued: Write[], attempt: Attempt<T>): Promise<Try<T>> => {
  let lost: KitError | undefined;
  let isOver = false;
  const check = (command: string): void => {
    if (isOver) throw new KitClosedError("The transaction");
    if (reserved.test(command)) throw new RangeError(`You cannot send ${command} in a transaction`);
  };
  const transaction: Transaction = {
    call: async (command, ...args) => {
      check(command);
      if (blocking.test([command, ...args.slice(0, 8), ""].join(" ")))
        throw new RangeError(`You cannot call ${command} in a transaction. Pass it to queue()`);
      try {
        return await connection.call(command, args, commandDeadlineMs);
      } catch (error) {
        if (isReplyError(error)) {
          const failure = serverError(error, command);
          if (passes(error)) {
            connection.misrouted(error.message);
            lost = failure;
          }
          throw failure;
        }
        // Any other error is about the caller's arguments.
        if (KitError.is(error)) lost = error;
        throw error;
      }
    },
    queue: (command, ...args) => {
      check(command);
      queued.push([command, ...args]);
    },
  };
  try {
    const value = await attempt(transaction);
    return lost ? { failure: lost } : { value };
  } catch (error) {
    if (lost) return { failure: lost };
    throw error;
  } finally {
    isOver = true;
  }
};

/** Awaits one of kit's own commands. A lost connection or a temporary refusal costs a try; any other outcome is the result. */
const attemptOn = async (
  connection: ExclusiveConnection,
  reply: Promise<unknown>,
  what: string,
): Promise<Try<unknown>> => {
  try {
    return { value: await reply };
  } catch (error) {
    if (error instanceof KitUnavailableError) {
      connection.misrouted("");
      return { failure: error };
    }
    if (!isReplyError(error)) throw error;
    const failure = serverError(error, what);
    if (!passes(error)) throw failure;
    connection.misrouted(error.message);
    return { failure };
  }
};

/** Sends MULTI, the writes and EXEC together. If the server refuses a write, EXEC fails as a whole. */
const execute = async (connection: ExclusiveConnection, queued: readonly Write[], what: string): Promise<unknown> => {
  const sent = [["MULTI"] as Write, ...queued].map(([command, ...args]) =>
    connection.call(command, args, commandDeadlineMs).then(
      () => undefined,
      (error: unknown) => error,
    ),
  );
  try {
    return await connection.call("EXEC", [], commandDeadlineMs, true);
  } catch (error) {
    if (error instanceof KitUnknownOutcomeError)
      throw new KitUnknownOutcomeError(
        `${what} was sent, but the reply was lost: the change may or may not have been made`,
        undefined,
        error.cause,
      );
    // EXECABORT does not say why; the reply of the refused command does.
    const refused = (await Promise.all(sent)).find(isReplyError);
    throw isReplyError(error) && refused ? refused : error;
  }
};
