// What is counted by a rate: callers that call again and again. A client process runs it.
import { now } from "@tooling/lab";
import { sent } from "./sent.js";

export interface Operation {
  /** How many call at the same time, each one call after the other. */
  readonly callers: number;
  /** A call of a caller, by its number: counted from 0 for each caller. A local call returns no promise. */
  readonly call: (caller: number, number: number) => unknown;
  /** How many are counted for a call. @default 1 */
  readonly size?: number;
  /** Calls between two readings of the clock, since local calls take nanoseconds. @default 1 */
  readonly burst?: number;
  /** Whether each call is timed. @default false */
  readonly isTimed?: boolean;
  /** Sends what calls have left in this process. */
  readonly settle?: () => Promise<unknown>;
}

export interface RunResult {
  readonly operations: number;
  readonly elapsedMs: number;
  /** Commands that this process sent. */
  readonly sent: number;
  /** CPU time of this process. */
  readonly cpuMicros: number;
  /** Milliseconds of each call, if they are timed. */
  readonly waits: Float64Array;
}

/** How often the event loop gets a turn during local calls, in which buffered values are sent. */
const turnMs = 10;
const isPromise = (result: unknown): result is PromiseLike<unknown> =>
  typeof (result as Partial<PromiseLike<unknown>> | undefined)?.then === "function";
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export const run = async (operation: Operation, ms: number): Promise<RunResult> => {
  const { callers, call, size = 1, burst = 1, isTimed = false, settle } = operation;
  const waits: number[] = [];
  let calls = 0;
  const timed = async (caller: number, number: number): Promise<void> => {
    const calledAt = now();
    await call(caller, number);
    waits.push(now() - calledAt);
  };
  const one = isTimed ? timed : call;
  const cpu = process.cpuUsage();
  const sentBefore = sent();
  const startedAt = now();
  const end = startedAt + ms;
  const loop = async (caller: number): Promise<void> => {
    let turnAt = startedAt + turnMs;
    for (let number = 0; now() < end; calls += burst) {
      let result: unknown;
      for (let left = burst; left > 0; left--) {
        result = one(caller, number++);
        if (isPromise(result)) await result;
      }
      if (isPromise(result) || now() < turnAt) continue;
      await turn();
      turnAt = now() + turnMs;
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => loop(caller)));
  await settle?.();
  const elapsedMs = now() - startedAt;
  const { user, system } = process.cpuUsage(cpu);
  return {
    operations: calls * size,
    elapsedMs,
    sent: sent() - sentBefore,
    cpuMicros: user + system,
    waits: Float64Array.from(waits),
  };
};
