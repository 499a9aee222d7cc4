import { resolve, type RulesOf, signal } from "@kit/core/toolkit";
import type { LogConnection } from "../connection.js";
import { LogObject } from "../log-object.js";
import { takeSums } from "./commands.js";

/** One sum to add. */
export interface CounterDelta {
  readonly name: string;
  readonly field: string;
  /** An integer within ±(2^53 − 1). */
  readonly by: number;
}

/** The writer of an addition, and the addition's number. The numbers of one writer ascend. */
export interface CounterOrigin {
  readonly writer: string;
  readonly seq: number;
}

/**
 * A place for counters outside the job or channel: a database, another server, or another package's counters.
 *
 * `apply` adds all deltas or none. The same `seq` of a writer can arrive again, with the same deltas, and must then add nothing. For this,
 * store each writer's last `seq` in the same transaction.
 */
export interface CounterSink {
  apply(deltas: readonly CounterDelta[], origin: CounterOrigin): Promise<void>;
}

/** Settings of moving sums to a sink. */
export interface ForwardOptions {
  /** Ends the call. Sums that the sink does not have yet stay in Redis. */
  readonly signal?: AbortSignal | undefined;
}

export const forwardRules = { signal } satisfies RulesOf<ForwardOptions>;

/** An object that stores results: a job, or a consumer of a channel. */
export class Processor<Events extends Record<keyof Events, readonly unknown[]>> extends LogObject<Events> {
  readonly #connection: LogConnection;
  readonly #owner: string;
  readonly #scope: readonly string[];

  /** `owner` is the key that records all keys with results. `scope` precedes the names of results. */
  constructor(connection: LogConnection, owner: string, ...scope: readonly string[]) {
    super(connection);
    this.#connection = connection;
    this.#owner = owner;
    this.#scope = scope;
  }

  /** Returns the fields of the result hash `name`. Sums are numbers as text. */
  async results(name: string): Promise<Map<string, string>> {
    this.#connection.life.assertOpen();
    return await this.#connection.hash(this.resultKey(name));
  }

  /** Returns the key of the result `name`, for other commands. */
  resultKey(name: string): string {
    return this.#connection.keys.result(...this.#scope, name);
  }

  /**
   * Moves the sums of the result `name` to a sink, each exactly once even after a crash. Sums stay in Redis until the sink has them. If the
   * reply to an addition is lost, kit repeats the addition with the same number. Resolves with the number of moved fields when none is
   * left. Any process can call `forward` at any time. Afterwards `results(name)` has only later sums.
   *
   * @throws the error of the sink. The next call passes the same sums again.
   */
  async forward(name: string, sink: CounterSink, options: ForwardOptions = {}): Promise<number> {
    const { signal: given } = resolve("options", options, forwardRules);
    const connection = this.#connection;
    const source = this.resultKey(name);
    const keys = { owner: this.#owner, source, sending: connection.keys.sending(...this.#scope, name) };
    const facts = (): object => ({ of: connection.name });
    return await connection.task("logship.forward", facts, given, async ({ signal }) => {
      for (let [ack, count] = [0, 0]; ;) {
        signal.throwIfAborted();
        const taken = await takeSums(connection, keys, ack);
        if (!taken) return count;
        const deltas = taken.sums.map(([field, by]) => ({ name, field, by }));
        await sink.apply(deltas, { writer: source, seq: taken.seq });
        ack = taken.seq;
        count += deltas.length;
      }
    });
  }
}
