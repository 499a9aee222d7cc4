import { types } from "node:util";
import type { Job } from "../job/job.js";

/** The caller's function that runs a batch. */
export type Gathering = (jobs: readonly Job[], signal: AbortSignal) => unknown;

/** A job of a batch, and how to settle its handler. */
interface Member {
  readonly job: Job;
  readonly settle: (outcome: unknown) => void;
  readonly fail: (error: unknown) => void;
}

/** Collects jobs, and runs them together. */
export const gather = (size: number, waitMs: number, run: Gathering): ((job: Job) => Promise<unknown>) => {
  /** The jobs of the next batch, each with a function that stops listening to its signals. */
  const waiting = new Map<Member, () => void>();
  let timer: NodeJS.Timeout | undefined;

  const leave = (member: Member): void => {
    waiting.get(member)?.();
    waiting.delete(member);
    if (waiting.size === 0) {
      clearTimeout(timer);
      timer = undefined;
    }
  };

  const start = (): void => {
    const members = [...waiting.keys()];
    for (const member of members) leave(member);
    void runBatch(members, run);
  };

  return (job) =>
    new Promise((settle, fail) => {
      const member = { job, settle, fail };
      const { signal, closing } = job;
      // The caller's handler may have done something before this call.
      const over = [signal, closing].find(({ aborted }) => aborted);
      if (over) {
        fail(over.reason);
        return;
      }
      const stop = listen([signal, closing], ({ reason }) => {
        leave(member);
        fail(reason);
      });
      waiting.set(member, stop);
      if (waiting.size >= size) start();
      else timer ??= setTimeout(start, waitMs);
    });
};

const runBatch = async (members: readonly Member[], run: Gathering): Promise<void> => {
  const controller = new AbortController();
  let left = members.length;
  const stops = members.map(({ job }) =>
    listen([job.signal], ({ reason }) => {
      if (--left === 0) controller.abort(reason);
    }),
  );
  try {
    const jobs = members.map(({ job }) => job);
    const outcomes = outcomesOf(await run(jobs, controller.signal), members.length);
    for (const [index, { settle, fail }] of members.entries()) {
      const outcome = outcomes[index];
      if (isError(outcome)) fail(outcome);
      else settle(outcome);
    }
  } catch (error) {
    for (const { fail } of members) fail(error);
  } finally {
    for (const stop of stops) stop();
  }
};

/** @throws {TypeError} `outcomes` does not have one outcome for each job. */
const outcomesOf = (outcomes: unknown, count: number): readonly unknown[] => {
  if (outcomes === undefined) return [];
  if (Array.isArray(outcomes) && outcomes.length === count) return outcomes;
  const got = Array.isArray(outcomes) ? `an array of ${String(outcomes.length)}` : typeof outcomes;
  throw new TypeError(
    `Expected a batch of ${String(count)} jobs to return an array of ${String(count)} outcomes, got ${got}`,
  );
};

/**
 * Whether a value is an error, including errors of another realm, as Jest makes them. A value that cannot be read fails its own job, when
 * its promise looks for `then`.
 */
const isError = (value: unknown): boolean => {
  try {
    return types.isNativeError(value) || value instanceof Error;
  } catch {
    return false;
  }
};

/** Calls `onAbort` once, with the first signal that aborts. Returns a function that stops listening. */
const listen = (signals: readonly AbortSignal[], onAbort: (signal: AbortSignal) => void): (() => void) => {
  const listeners = signals.map((signal) => [signal, (): void => onAbort(signal)] as const);
  for (const [signal, listener] of listeners) signal.addEventListener("abort", listener, { once: true });
  return () => {
    for (const [signal, listener] of listeners) signal.removeEventListener("abort", listener);
  };
};
