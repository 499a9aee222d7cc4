import type { Hub } from "./hub.js";
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

/** Moves the sums of a result to a sink. Sums are in Redis until the sink has them; a crash at any point repeats an addition under its number. */
export const forwardSums = async (
  hub: Hub,
  owner: string,
  names: readonly [...consumer: string[], result: string],
  sink: CounterSink,
  given: AbortSignal | undefined,
): Promise<number> => {
  const { context, keys, deadlineMs } = hub;
  const name = names.at(-1)!;
  const operands = { owner, source: keys.result(...names), sending: keys.sending(...names) };
  return await hub.task(
    "logship.forward",
    () => ({ of: hub.name }),
    given,
    async ({ signal }) => {
      for (let [ack, count] = [0, 0]; ;) {
        signal.throwIfAborted();
        const taken = await scripts.take.run(context, operands, { ack }, { deadlineMs });
        if (!taken) return count;
        const deltas = taken.sums.map(([field, by]) => ({ name, field, by }));
        await sink.apply(deltas, { writer: operands.source, seq: taken.seq });
        ack = taken.seq;
        count += deltas.length;
      }
    },
  );
};
