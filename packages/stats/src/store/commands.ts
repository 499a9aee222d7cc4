import type { KitUnavailableError, RedisArgument } from "@kit/core";
import {
  type ClientContext,
  Deadline,
  type ExclusiveConnection,
  noAnswer,
  type ObjectLife,
  reading,
} from "@kit/core/toolkit";
import { ServerTime } from "../time/clock.js";
import * as scripts from "./scripts/index.js";
import * as records from "./scripts/records.js";

/** The maximum number of keys that one call reads. */
const maxKeys = 500;
/** The maximum number of list members that one call reads. The server does nothing else meanwhile. */
const maxMembers = 20_000;
/** How long a tail's call blocks on the server when there is no entry. */
const blockMs = 10_000;
/** How many entries of a stream one call of a tail reads. */
const maxEntries = 100;

/** The part of one batch in a script's KEYS and ARGV. */
export interface Operands {
  /** The totals, the writer's ledger, others. */
  readonly keys: readonly string[];
  /** The records that the script alone reads. */
  readonly plan: readonly RedisArgument[];
}

/** A batch of one series, as a call has it. */
export interface SentBatch {
  readonly operands: Operands;
  /** Grows from batch to batch of one writer: the server counts each number once. */
  readonly seq: number;
  /** The server's instant after which it must not be counted; 0 if there is none. */
  readonly validUntil: number;
}

/** A list in parts of at most `length`, for one call each. */
export const partsOf = <Item>(list: readonly Item[], length: number): Item[][] =>
  list.flatMap((_, at) => (at % length === 0 ? [list.slice(at, at + length)] : []));

/** The calls of one statistics object to Redis, and the estimate of the server's clock that their replies give. */
export class Commands {
  readonly clock: ServerTime = new ServerTime();
  readonly deadlineMs: number;
  readonly #life: ObjectLife;
  readonly #context: ClientContext;

  constructor(life: ObjectLife, deadlineMs: number) {
    this.#life = life;
    this.#context = life.context;
    this.deadlineMs = deadlineMs;
  }

  get prefix(): string {
    return this.#context.prefix;
  }

  /** Whether each series needs a separate call. */
  isCluster(deadlineMs: number = this.deadlineMs): Promise<boolean> {
    return this.#context.isCluster(deadlineMs);
  }

  /** The error for an amount of a series that was not sent by its deadline. */
  notSent(series: string): KitUnavailableError {
    return noAnswer(this.#context.client, `an amount for ${series} was not sent`);
  }

  /** Reads the server's clock, unless an earlier reply contained it. */
  async learnTime(deadline?: Deadline, signal?: AbortSignal): Promise<void> {
    if (this.clock.isKnown) return;
    const sentAt = performance.now();
    const call = reading("TIME", deadline ?? Deadline.in(this.deadlineMs), signal);
    this.clock.observe(sentAt, scripts.serverMs(await this.#context.executor.run("TIME", [], call)));
  }

  /**
   * The server's epoch milliseconds by the estimate.
   *
   * @throws {KitUnavailableError} there is no estimate yet, and the server did not answer in time.
   * @throws {KitClosedError} the object is closed.
   */
  async serverNow(): Promise<number> {
    this.#life.assertOpen();
    await this.learnTime();
    return this.clock.now();
  }

  /** Sends batches in one call. The server remembers each for `ledgerMs`; 0: it does not. */
  send(
    script: scripts.BatchScript,
    ledgerMs: number,
    batches: readonly SentBatch[],
    deadlineMs: number,
    op?: string,
  ): Promise<readonly (string | Error)[]> {
    const series: string[] = [];
    const plan: RedisArgument[] = [ledgerMs];
    for (const { operands, seq, validUntil } of batches) {
      series.push(...operands.keys);
      records.batchHead(plan, { keys: operands.keys.length, items: operands.plan.length, validUntil, seq });
      for (const operand of operands.plan) plan.push(operand);
    }
    return script.run(this.#context, { series }, { plan }, { deadlineMs, op });
  }

  /**
   * Reads keys of one slot. More than 500 keys take several calls. So do keys whose lists, with up to `membersOfEach` members
   * each, exceed 20,000 members together. Several calls don't read at one instant: `now` is the time of the last call.
   */
  async read<Value>(
    reading: scripts.Reading<Value>,
    keys: readonly string[],
    query: readonly (string | number)[],
    membersOfEach = 1,
  ): Promise<scripts.Readings<Value>> {
    this.#life.assertOpen();
    const { clock, deadlineMs } = this;
    const values: Value[] = [];
    let now = clock.now();
    const atOnce = Math.max(1, Math.min(maxKeys, Math.floor(maxMembers / membersOfEach)));
    for (const part of partsOf(keys, atOnce)) {
      const sentAt = performance.now();
      const reply = await reading.run(this.#context, { keys: part }, { query }, { deadlineMs });
      clock.observe(sentAt, reply.now);
      now = reply.now;
      values.push(...reply.values);
    }
    return { now, values };
  }

  /** Reads hashes of one slot, as {@link read} does. */
  hashes(keys: readonly string[]): Promise<scripts.Readings<ReadonlyMap<string, string>>> {
    return this.read(scripts.hashes, keys, ["hash"]);
  }

  /** Lists series of a metric, or removes them from the list. Resolves with how many were removed. */
  list(list: string, args: Parameters<typeof scripts.index.run>[2]): Promise<number> {
    const { deadlineMs } = this;
    return scripts.index.run(this.#context, { index: list }, args, { deadlineMs });
  }

  /** The id of the last entry of each stream; undefined if there is none. */
  async lastIds(streams: readonly string[]): Promise<readonly (string | undefined)[]> {
    const { deadlineMs } = this;
    const query = ["newest", 1, ...streams.map(() => "+")];
    const { values } = await scripts.newest.run(this.#context, { keys: streams }, { query }, { deadlineMs });
    return values.map(([last]) => last?.id);
  }

  /** A dedicated connection for {@link entriesAfter}. */
  tailConnection(stream: string, signal: AbortSignal | undefined): Promise<ExclusiveConnection> {
    return this.#context.pool("tail", 256).checkOut(stream, Deadline.in(this.deadlineMs), signal);
  }

  /** The entries of streams behind the given ids; waits for them on the server for ten seconds at most. */
  async entriesAfter(
    connection: ExclusiveConnection,
    streams: readonly string[],
    ids: readonly string[],
  ): Promise<readonly (readonly [stream: string, entries: scripts.RawEntry[]])[]> {
    const args = ["BLOCK", blockMs, "COUNT", maxEntries, "STREAMS", ...streams, ...ids];
    return scripts.rawStreams(await connection.call("XREAD", args, blockMs + this.deadlineMs));
  }
}
