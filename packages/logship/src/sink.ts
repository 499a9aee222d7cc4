import { optionsObject } from "@kit/core/toolkit";
import type { Hub } from "./hub.js";
import { hashOf } from "./removal.js";
import * as scripts from "./scripts/index.js";

/** One sum to be added. */
export interface CounterDelta {
  readonly name: string;
  readonly field: string;
  /** An integer within ±(2^53 − 1). */
  readonly by: number;
}

/** Which addition it is: of one writer the numbers ascend. */
export interface CounterOrigin {
  readonly writer: string;
  readonly seq: number;
}

/**
 * A place for counters outside of the job or channel: a database, another server, the counters of another package.
 *
 * `apply` adds all deltas or none. The same `seq` of a writer may come again, with the same deltas, and must add nothing then: it is enough to keep
 * the last `seq` of each writer in the same transaction.
 */
export interface CounterSink {
  apply(deltas: readonly CounterDelta[], origin: CounterOrigin): Promise<void>;
}

/** How long sums are moved. */
export interface ForwardOptions {
  /** Ends it: what the sink does not have stays in Redis. */
  readonly signal?: AbortSignal | undefined;
}

/** The results of a job, or of a consumer of a channel. */
export class ResultStore {
  readonly #hub: Hub;
  readonly #owner: string;
  readonly #scope: readonly string[];

  /** `owner`: the key that knows all keys with results. `scope`: what stands before their names. */
  constructor(hub: Hub, owner: string, ...scope: readonly string[]) {
    this.#hub = hub;
    this.#owner = owner;
    this.#scope = scope;
  }

  key(name: string): string {
    return this.#hub.keys.result(...this.#scope, name);
  }

  async read(name: string): Promise<Map<string, string>> {
    this.#hub.assertOpen();
    return await hashOf(this.#hub, this.key(name));
  }

  /** Sums are in Redis until the sink has them; a crash at any point repeats an addition under its number. */
  async forward(name: string, sink: CounterSink, options: ForwardOptions): Promise<number> {
    const { signal: given } = optionsObject<ForwardOptions>("options", options, ["signal"]);
    const { context, keys, deadlineMs, name: of } = this.#hub;
    const source = this.key(name);
    const operands = { owner: this.#owner, source, sending: keys.sending(...this.#scope, name) };
    const facts = (): object => ({ of });
    return await this.#hub.task("logship.forward", facts, given, async ({ signal }) => {
      for (let [ack, count] = [0, 0]; ;) {
        signal.throwIfAborted();
        const taken = await scripts.take.run(context, operands, { ack }, { deadlineMs });
        if (!taken) return count;
        const deltas = taken.sums.map(([field, by]) => ({ name, field, by }));
        await sink.apply(deltas, { writer: source, seq: taken.seq });
        ack = taken.seq;
        count += deltas.length;
      }
    });
  }
}
