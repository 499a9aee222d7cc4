import {
  KitClosedError,
  type KitError,
  KitUnavailableError,
  KitUnknownOutcomeError,
  type RedisArgument,
  type RedisLike,
  type Script,
} from "../index.js";
import type { Settle } from "../kernel/index.js";
import {
  Deadline,
  type ExclusiveConnection,
  isReplyError,
  type ClientContext,
  serverError,
  settled,
  traced,
  withContext,
} from "../toolkit/index.js";
import { confirm, type Durability, unknown } from "./confirm.js";
import { checkOut } from "./connection.js";
import { type DurabilityOptions, type ResolvedOptions, resolveOptions } from "./options.js";

/** A dedicated connection for writes whose durability is confirmed. Only this call uses it. */
export interface DurableScope {
  /**
   * Sends one command.
   *
   * @throws {KitUnknownOutcomeError} it was sent and the reply is lost.
   * @throws {KitError} the server refused it, with its code.
   */
  call(command: string, ...args: RedisArgument[]): Promise<unknown>;
  /** Runs one script, like the script's own `run`, within the deadline of the whole call. */
  run<const Keys extends readonly string[], const Args extends readonly string[], Reply>(
    script: Script<Keys, Args, Reply>,
    keys: Parameters<Script<Keys, Args, Reply>["run"]>[1],
    args: Parameters<Script<Keys, Args, Reply>["run"]>[2],
  ): Promise<Reply>;
}

/** The result of the writes, and their durability. */
export interface DurableResult<T> extends Durability {
  readonly value: T;
}

/**
 * Commands that would end the connection, change it for the next borrower (another user, protocol or mode), or prevent the
 * confirmation.
 */
const reserved =
  /^(MULTI|EXEC|DISCARD|WATCH|UNWATCH|RESET|QUIT|SELECT|AUTH|HELLO|CLIENT|READONLY|READWRITE|ASKING|[PS]?(UN)?SUBSCRIBE|MONITOR|SYNC|PSYNC|WAIT|WAITAOF|B(L|R|Z)\w*POP\w*|BLMOVE)$/i;

/**
 * Runs `write` on a dedicated connection and reports the durability of its writes: how many replicas have them, and whether disks
 * do.
 *
 * The outcome is `safe` only if the same server replies on the same connection and is still the master of the same history.
 * Otherwise it is `unknown`. Data that `write` only reads must be confirmed as well: if a retry finds its work done, the outcome is
 * `safe` only if that work is durable. This is not a consensus protocol; see `replicas`.
 *
 * Up to eight calls run at a time per client and prefix. Further calls wait in order of arrival; commands on the client itself
 * never wait for them. For several changes in one atomic step, use a script: MULTI is rejected, as are commands that block or
 * change the connection (AUTH, SELECT and the like).
 *
 * @throws the error of `write`; the connection is then closed.
 * @throws {KitUnavailableError} no master answered in time; nothing was written.
 * @throws {KitUnknownOutcomeError} `write` did not finish by `deadlineMs`, but had sent something.
 * @throws `signal.reason` if `signal` aborts first.
 *
 * @example
 * const { outcome, why } = await durable(redis, { key: "order:1", replicas: 1 }, (scope) => scope.call("SET", "order:1", "paid"));
 * if (outcome !== "safe") console.warn("not safe yet:", why);
 */
export const durable = async <T>(
  redis: RedisLike | ClientContext,
  options: DurabilityOptions,
  write: (scope: DurableScope) => Promise<T>,
): Promise<DurableResult<T>> => {
  const resolved = resolveOptions(options);
  return await traced("core.durable", contextOf(resolved), () =>
    withContext(redis, (context) => new Session(context, resolved, write).run()),
  );
};

/**
 * Reports whether the requested replicas and disks have every write that the server of `key` has received so far, from any client.
 * After a failover, the new server may never have received your write. To confirm your own write, use `durable`.
 *
 * @throws {KitUnavailableError} no master answered in time.
 * @throws `signal.reason` if `signal` aborts first.
 */
export const waitForSync = async (
  redis: RedisLike | ClientContext,
  options: DurabilityOptions,
): Promise<Durability> => {
  const resolved = resolveOptions(options);
  return await traced("core.waitForSync", contextOf(resolved), () =>
    withContext(redis, async (context) => {
      const { value: _, ...answer } = await new Session(context, resolved, () => Promise.resolve()).run();
      return answer;
    }),
  );
};

const contextOf =
  ({ key, replicas, fsync }: ResolvedOptions) =>
  (): object => ({ key, replicas, fsync });

/** One call: its connection from check-out to return, and its end by result, deadline or signal. */
class Session<T> {
  readonly #context: ClientContext;
  readonly #resolved: ResolvedOptions;
  readonly #write: (scope: DurableScope) => Promise<T>;
  readonly #deadline: Deadline;
  readonly #pending = new Set<Promise<unknown>>();
  #connection: ExclusiveConnection | undefined;
  #written: { readonly value: T } | undefined;
  #failure: KitError | undefined;
  #hasSent = false;
  #isWriting = false;
  #isOver = false;

  constructor(context: ClientContext, resolved: ResolvedOptions, write: (scope: DurableScope) => Promise<T>) {
    this.#context = context;
    this.#resolved = resolved;
    this.#write = write;
    this.#deadline = Deadline.in(resolved.deadlineMs);
  }

  /** Settles with the work, at the deadline, or when the caller gives up. */
  run(): Promise<DurableResult<T>> {
    const { signal } = this.#resolved;
    signal?.throwIfAborted();
    let isClean = false;
    return settled<DurableResult<T>>(
      { deadline: this.#deadline, signal },
      (settle) => this.#late(settle),
      ({ resolve, reject }) => {
        this.#work().then((result) => {
          isClean = result.outcome !== "unknown";
          resolve(result);
        }, reject);
        return () => {
          this.#isOver = true;
          this.#connection?.returnToPool(isClean);
        };
      },
    );
  }

  async #work(): Promise<DurableResult<T>> {
    const checkedOut = await checkOut(
      this.#context,
      this.#resolved,
      this.#deadline,
      (failure) => (this.#failure = failure),
    );
    this.#connection = checkedOut.connection;
    if (this.#isOver) {
      checkedOut.connection.returnToPool(false);
      throw new KitClosedError("The durable scope");
    }
    this.#isWriting = true;
    const value = await this.#write(this.#scope(checkedOut.connection));
    this.#isWriting = false;
    // This includes commands that the caller did not await: the confirmation follows all of them.
    await Promise.allSettled(this.#pending);
    this.#written = { value };
    return { value, ...(await confirm(this.#context, checkedOut, this.#resolved, this.#deadline)) };
  }

  #late({ resolve, reject }: Settle<DurableResult<T>>): void {
    const { key } = this.#resolved;
    const what = `The durable writes of ${key}`;
    if (this.#written) resolve({ value: this.#written.value, ...unknown("the server did not answer in time") });
    else if (this.#hasSent)
      reject(
        new KitUnknownOutcomeError(`${what} did not finish in time: they may or may not have been made`, undefined),
      );
    else if (this.#failure && !this.#connection) reject(this.#failure);
    else reject(new KitUnavailableError(`${what} did not start in time`, this.#connection?.address ?? "the master"));
  }

  #scope(connection: ExclusiveConnection): DurableScope {
    const send = <R>(run: () => Promise<R>): Promise<R> => {
      if (!this.#isWriting || this.#isOver) return Promise.reject(new KitClosedError("The durable scope"));
      this.#hasSent = true;
      const sent = run();
      this.#pending.add(sent);
      // A rejected command that the caller ignores must not end the process.
      sent.then(
        () => this.#pending.delete(sent),
        () => this.#pending.delete(sent),
      );
      return sent;
    };
    return {
      call: (command, ...args) => {
        if (reserved.test(command))
          return Promise.reject(new RangeError(`You cannot send ${command} in a durable scope`));
        return send(async () => {
          try {
            return await connection.call(command, args, this.#deadline.remainingMs, true);
          } catch (error) {
            throw isReplyError(error) ? serverError(error, command) : error;
          }
        });
      },
      run: (script, keys, args) =>
        send(() =>
          script.run(connection.executor, keys, args, { deadlineMs: Math.max(1, this.#deadline.remainingMs) }),
        ),
    };
  }
}
