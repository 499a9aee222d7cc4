import {
  backoffMs,
  type ClientContext,
  Deadline,
  type ExclusiveConnection,
  inTime,
  isClusterClient,
  isReplyError,
  pause,
  reading,
  replyOf,
  settled,
} from "@kit/core/toolkit";
import { graceMs, longestWaitMs, type Marker, spreadMs, type Wakeups } from "../work/waiter.js";

/** A queue whose worker waits for work. */
interface Sleeper {
  /** The key of the queue's markers. */
  readonly key: string;
  /** When its worker looks for work without a marker, on this process's monotonic clock. */
  readonly until: number;
  readonly connected: () => void;
  readonly wake: (marker: Marker | undefined) => void;
  readonly fail: (error: unknown) => void;
}

/** Errors with which the server will always reject the pop or CLIENT UNBLOCK. */
const lasting = /^(?:NOPERM|CROSSSLOT|WRONGTYPE|ERR unknown)/i;
/** How often CLIENT UNBLOCK can find the connection not blocked before it counts as unsupported. */
const maxUnblocks = 30;

/**
 * One BZPOPMIN on the markers of all queues that wait. When another queue starts to wait, CLIENT UNBLOCK ends the pop, and the next pop
 * includes that queue. A marker of a queue that no longer waits goes back to its key.
 */
export class SharedWait implements Wakeups {
  readonly #context: ClientContext;
  readonly #keyPrefix: string;
  readonly #sleepers = new Set<Sleeper>();
  #connection: ExclusiveConnection | undefined;
  #connectionId = 0;
  /** The pop that blocks the connection now. */
  #pop: object | undefined;
  /** The last pop that was told to end. */
  #ending: object | undefined;
  #running: Promise<void> | undefined;
  #isRefused: boolean;

  constructor(context: ClientContext) {
    const { client, executor } = context;
    this.#context = context;
    this.#keyPrefix = (client as { options?: { keyPrefix?: string } }).options?.keyPrefix ?? "";
    // One pop cannot have keys of several slots.
    this.#isRefused = isClusterClient(client);
    // On another server, the connection's id belongs to another client. So a new connection for commands needs a new one to wait.
    const disconnect = (): void => this.#disconnect();
    context.onDetached(executor.onDrop(disconnect));
    context.onDetached(executor.onReady(disconnect));
  }

  next(key: string, connected: () => void, signal: AbortSignal): Promise<Marker | undefined> | undefined {
    if (this.#isRefused) return undefined;
    return settled<Marker | undefined>(
      { signal },
      () => undefined,
      ({ resolve, reject }) => {
        const until = performance.now() + longestWaitMs;
        const sleeper: Sleeper = { key, until, connected, wake: resolve, fail: reject };
        this.#sleepers.add(sleeper);
        if (this.#pop) this.#endPop();
        else this.#start();
        return () => {
          this.#sleepers.delete(sleeper);
          if (signal.aborted) this.#endPop();
        };
      },
    );
  }

  /** Resolves once no marker is on its way to a queue that no longer waits, or when the server does not answer. */
  async settle(): Promise<void> {
    if (this.#running) await inTime(this.#running, { deadline: Deadline.in(graceMs) });
  }

  #start(): void {
    this.#running ??= this.#run()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#running = undefined;
        if (this.#sleepers.size > 0) this.#start();
      });
  }

  async #run(): Promise<void> {
    for (;;) {
      // Queues that become empty in the same turn of the event loop share a pop.
      await new Promise(setImmediate);
      const [first] = this.#sleepers;
      if (!first) return;
      const connection = await this.#checkOut(first.key);
      const popped = await this.#popOn(connection);
      if (popped) await this.#deliver(popped);
      else this.#wakeOverdue();
    }
  }

  async #checkOut(key: string): Promise<ExclusiveConnection> {
    if (this.#connection?.isBroken) this.#disconnect();
    if (this.#connection) return this.#connection;
    const connection = await this.#context.pool("queue-wait").checkOut(key, Deadline.in(graceMs), undefined);
    this.#connection = connection;
    await connection.executor.ready(reading("Waiting for work", Deadline.in(graceMs)));
    this.#connectionId = Number(await connection.call("CLIENT", ["ID"], graceMs));
    return connection;
  }

  async #popOn(connection: ExclusiveConnection): Promise<readonly unknown[] | null> {
    const sleepers = [...this.#sleepers];
    if (sleepers.length === 0) return null;
    const earliest = Math.min(...sleepers.map(({ until }) => until));
    const waitMs = Math.max(1, earliest - performance.now() - Math.random() * spreadMs);
    const keys = new Set(sleepers.map(({ key }) => key));
    const pop = (this.#pop = {});
    for (const { connected } of sleepers) connected();
    try {
      const args = [...keys, (waitMs / 1_000).toFixed(3)];
      return (await connection.call("BZPOPMIN", args, waitMs + graceMs)) as readonly unknown[] | null;
    } finally {
      if (this.#pop === pop) this.#pop = undefined;
    }
  }

  async #deliver(popped: readonly unknown[]): Promise<void> {
    const [key = "", marker = "", score = ""] = popped.map(String);
    for (const sleeper of this.#sleepers)
      if (this.#keyPrefix + sleeper.key === key) return sleeper.wake(marker as Marker);
    const what = "Returning a wake-up";
    const call = { what, mutates: true, idempotent: true, deadline: Deadline.in(graceMs) };
    const own = key.slice(this.#keyPrefix.length);
    // If this fails, another worker finds the job with its next look.
    await this.#context.executor.run("ZADD", [own, score, marker], call).catch(() => undefined);
  }

  /** Wakes the queues whose waits are almost over, so that they look, and wait again, together. */
  #wakeOverdue(): void {
    const soon = performance.now() + spreadMs;
    for (const { until, wake } of [...this.#sleepers]) if (until <= soon) wake(undefined);
  }

  /** Ends the pop: its keys differ from the keys of the queues that wait now. */
  #endPop(): void {
    const pop = this.#pop;
    if (!pop || this.#ending === pop) return;
    this.#ending = pop;
    setImmediate(() => void this.#unblock(pop));
  }

  async #unblock(pop: object): Promise<void> {
    const isWanted = (): boolean => this.#pop === pop;
    try {
      for (let attempt = 1; isWanted(); attempt++) {
        const call = { ...reading("Waiting for work", Deadline.in(graceMs)), isWanted };
        const unblocked = await this.#context.executor.run("CLIENT", ["UNBLOCK", this.#connectionId], call);
        if (Number(unblocked) === 1) return;
        if (attempt === maxUnblocks) this.#isRefused = true;
        if (this.#isRefused) return this.#fail(undefined);
        // The server has not received the pop yet, or has already replied to it.
        await pause(backoffMs(attempt + 1, 1, 50));
      }
    } catch (error) {
      if (isWanted()) this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#disconnect();
    if (isReplyError(error) && lasting.test(replyOf(error.message))) this.#isRefused = true;
    // If the pop is rejected, the queues look for work, and then each waits on its own connection.
    for (const { wake, fail } of [...this.#sleepers])
      if (this.#isRefused) wake(undefined);
      else fail(error);
  }

  #disconnect(): void {
    this.#pop = undefined;
    this.#connection?.returnToPool(false);
    this.#connection = undefined;
  }
}
