import type { Model, Operation } from "../../linearizable.js";
import { clockErrorMs } from "../../records.js";
import type { CallRecord, RunHistory } from "./history.js";

/** The calls of a lock, as its callers see them. Fencing tokens are numbers below 2^53. */
export type MutexCall =
  | { readonly kind: "acquire"; readonly fence: number }
  /** A release by the holder. */
  | { readonly kind: "release"; readonly fence: number }
  /** The lease expired, or was released without a reply. */
  | { readonly kind: "end"; readonly fence: number }
  /** The server replied to the caller that it does not hold the lock. */
  | { readonly kind: "not held"; readonly fence: number };

export interface MutexState {
  /** The holder's fencing token; 0: free. */
  readonly holder: number;
  readonly newest: number;
}

/** A mutex: one holder at a time, and each grant has a larger fencing token than all before. */
export const mutexWithFence: Model<MutexState, MutexCall> = {
  initial: { holder: 0, newest: 0 },
  step: ({ holder, newest }, { kind, fence }) => {
    switch (kind) {
      case "acquire":
        return holder === 0 && fence > newest ? { holder: fence, newest: fence } : undefined;
      case "release":
      case "end":
        return holder === fence ? { holder: 0, newest } : undefined;
      case "not held":
        return holder === fence ? undefined : { holder, newest };
    }
  },
  key: ({ holder, newest }) => `${String(holder)} ${String(newest)}`,
};

type Window = { readonly name: string; readonly operations: readonly Operation<MutexCall>[] };

const mostOperations = 200;

/**
 * Splits the calls of a run into small histories of one name each. All calls of a grant are in one of them. Each history
 * begins with a free lock, which can hide a fault between two histories but cannot produce one.
 */
export const mutexWindows = (run: RunHistory): Window[] => {
  const windows: Window[] = [];
  for (const [name, operations] of operationsOf(run)) {
    const byFence = new Map<number, Operation<MutexCall>[]>();
    for (const operation of operations) {
      const { fence } = operation.call;
      byFence.set(fence, [...(byFence.get(fence) ?? []), operation]);
    }
    let window: Operation<MutexCall>[] = [];
    for (const fence of [...byFence.keys()].toSorted((a, b) => a - b)) {
      const grant = byFence.get(fence) ?? [];
      // A grant whose caller got no reply is left out.
      if (!grant.some(({ call }) => call.kind === "acquire")) continue;
      if (window.length + grant.length > mostOperations) {
        windows.push({ name, operations: window });
        window = [];
      }
      window.push(...grant);
    }
    if (window.length > 0) windows.push({ name, operations: window });
  }
  return windows;
};

/** Whether another copy of a release may have run before the one whose reply its caller got. */
const isUnsure = ({ outages }: RunHistory, { startedAt, settledAt }: CallRecord): boolean =>
  outages.some(({ kind, from, to }) => kind === "requests repeated" && from <= settledAt && startedAt <= to);

const operationsOf = (run: RunHistory): Map<string, Operation<MutexCall>[]> => {
  const byName = new Map<string, Operation<MutexCall>[]>();
  for (const { records } of run.workers) {
    // A lost lease is released in the background, at an unknown instant.
    const lost = new Set<string>();
    const released = new Set<string>();
    const askedAt = new Map(
      records.flatMap((record) =>
        record.kind === "call" && record.fence !== undefined ? [[record.fence, record.startedAt] as const] : [],
      ),
    );
    const given = new Set(records.map((record) => record.kind === "call" && record.what === "release" && record.lease));
    /** Until this instant only its caller could have ended the lease. */
    const endsFrom = new Map<string, number>();
    for (const record of records) {
      if (record.kind === "hold") {
        const { fence, abortedAt, endsAt, endedAt } = record;
        if (abortedAt !== undefined) lost.add(fence);
        // For its holder, a lease without a renewal ends a lease's length after its request, even if the grant came late.
        const ownEnd = (askedAt.get(fence) ?? -Infinity) + 0.98 * run.leaseMs;
        const heldAtLeastUntil =
          endsAt === undefined ? -Infinity : Math.min(endsAt - clockErrorMs, ownEnd, abortedAt ?? Infinity);
        // A worker that is killed during a release leaves no record of it.
        endsFrom.set(fence, given.has(fence) ? heldAtLeastUntil : Math.min(heldAtLeastUntil, endedAt));
      } else if (record.kind === "call" && record.what === "release") {
        const { lease = "", outcome, result, startedAt } = record;
        if (outcome === "ok" && result === "released") released.add(lease);
        // A release that got the reply "not held" has ended no lease.
        if (result !== "not-held" || isUnsure(run, record))
          endsFrom.set(lease, Math.min(endsFrom.get(lease) ?? -Infinity, startedAt));
      }
    }
    for (const record of records) {
      if (record.kind !== "call" || record.outcome !== "ok") continue;
      const { name, what, startedAt, settledAt: endedAt, lease, result } = record;
      const operations = byName.get(name) ?? [];
      byName.set(name, operations);
      if (record.fence !== undefined) {
        const fence = Number(record.fence);
        operations.push({ call: { kind: "acquire", fence }, startedAt, endedAt });
        const isReleased = released.has(record.fence) && !lost.has(record.fence);
        const endsAt = Math.max(startedAt, endsFrom.get(record.fence) ?? startedAt);
        if (!isReleased) operations.push({ call: { kind: "end", fence }, startedAt: endsAt, endedAt: Infinity });
      } else if (what === "release" && lease !== undefined) {
        const fence = Number(lease);
        if (result === "released" && !lost.has(lease))
          operations.push({ call: { kind: "release", fence }, startedAt, endedAt });
        else if (result === "not-held" && !isUnsure(run, record))
          operations.push({ call: { kind: "not held", fence }, startedAt, endedAt });
      }
    }
  }
  return byName;
};
