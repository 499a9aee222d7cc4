import { expect, it } from "vitest";
import { sectionsOf } from "../src/workloads/lock/sections.js";
import type { HoldRecord, WorkerHistory } from "../src/workloads/lock/history.js";

const aHold = (grantedAt: number, endedAt: number, fence: number, abortedAt?: number): HoldRecord => ({
  ...{ kind: "hold", name: "a", fence: String(fence), grantedAt, endedAt },
  ...(abortedAt !== undefined && { abortedAt }),
});

const aWorker = (...records: HoldRecord[]): WorkerHistory => ({ id: "w", records, printed: "", end: "exit 0" });

it("counts the sections of all processes that overlap, and tokens that do not grow", () => {
  const right = [aWorker(aHold(0, 10, 1), aHold(40, 50, 3)), aWorker(aHold(11, 39, 2))];
  expect(sectionsOf({ workers: right })).toEqual({
    sections: 3,
    overlapping: 0,
    "tokens that did not grow": 0,
    "distinct tokens": 3,
  });
  const wrong = [...right, aWorker(aHold(20, 25, 2), { ...aHold(20, 25, 1), name: "b" })];
  expect(sectionsOf({ workers: wrong })).toEqual({
    sections: 5,
    overlapping: 1,
    "tokens that did not grow": 1,
    "distinct tokens": 4,
  });
});

it("takes a section for over once its signal has aborted", () => {
  const workers = [aWorker(aHold(0, 100, 1, 20)), aWorker(aHold(30, 40, 2))];
  expect(sectionsOf({ workers })).toMatchObject({ sections: 2, overlapping: 0 });
});

it("takes a section for over when its process stood still", () => {
  const stall = { kind: "stall", from: 20, to: 90 } as const;
  const stalled = { ...aWorker(aHold(0, 100, 1)), records: [stall, aHold(0, 100, 1)] };
  expect(sectionsOf({ workers: [stalled, aWorker(aHold(30, 40, 2))] })).toMatchObject({ overlapping: 0 });
  expect(sectionsOf({ workers: [stalled, aWorker(aHold(10, 15, 2))] })).toMatchObject({ overlapping: 1 });
});
