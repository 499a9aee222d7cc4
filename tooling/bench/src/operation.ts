// An operation: callers that call again and again, in a client process. A rate counts their calls.
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import { sent } from "./sent.js";

export interface Operation {
  /** How many call at the same time, each one call after the other. */
  readonly callers: number;
  /** A call of a caller, by its number: counted from 0 for each caller. */
  readonly call: (caller: number, number: number) => unknown;
  /** How many are counted for a call. @default 1 */
  readonly size?: number;
  /** Whether a call returns nothing to wait for. There is one caller then. @default false */
  readonly isLocal?: boolean;
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

/** Starts a call of the first caller at an even rate, whether or not earlier ones have ended. Each is timed. */
export const pour = async ({ call }: Operation, ms: number, perSecond: number): Promise<RunResult> => {
  const waits: number[] = [];
  const calls: Promise<unknown>[] = [];
  const timed = async (number: number): Promise<void> => {
    const calledAt = now();
    await call(0, number);
    waits.push(now() - calledAt);
  };
  const cpu = process.cpuUsage();
  const sentBefore = sent();
  const startedAt = now();
  const gap = 1_000 / perSecond;
  for (let due = startedAt + gap; due < startedAt + ms; due += gap) {
    while (now() < due) await sleep(Math.max(1, due - now()));
    calls.push(timed(calls.length));
  }
  await Promise.all(calls);
  const { user, system } = process.cpuUsage(cpu);
  return {
    operations: calls.length,
    elapsedMs: now() - startedAt,
    sent: sent() - sentBefore,
    cpuMicros: user + system,
    waits: Float64Array.from(waits),
  };
};

/** Local calls between two readings of the clock, since they take nanoseconds. */
const burst = 1_000;
/** How often the event loop gets a turn during local calls, in which buffered values are sent. */
const turnMs = 10;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export const run = async (operation: Operation, ms: number): Promise<RunResult> => {
  const { callers, call, size = 1, isLocal = false, isTimed = false, settle } = operation;
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
    for (let number = 0; now() < end; number++, calls++) await one(caller, number);
  };
  const locally = async (): Promise<void> => {
    let number = 0;
    while (now() < end) {
      const turnAt = Math.min(end, now() + turnMs);
      do for (const upTo = number + burst; number < upTo; number++) call(0, number);
      while (now() < turnAt);
      await turn();
    }
    calls = number;
  };
  await (isLocal ? locally() : Promise.all(Array.from({ length: callers }, (_, caller) => loop(caller))));
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
