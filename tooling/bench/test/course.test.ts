import { describe, expect, it } from "vitest";
import { courseOf, unfairness } from "../src/cases/lock-course.js";
import type { LoopsResult } from "../src/cases/lock-jobs.js";

/** Rows of asked, running, giving back, loop. */
const process = (...rows: readonly (readonly [number, number, number, number])[]): LoopsResult => ({
  requested: Float64Array.from(rows, ([asked]) => asked),
  granted: Float64Array.from(rows, ([, granted]) => granted),
  released: Float64Array.from(rows, ([, , released]) => released),
  loop: Float64Array.from(rows, ([, , , loop]) => loop),
  sentInWindow: 4,
  sent: 10,
});

const frame = { loopsPerProcess: 1, countFrom: 10, stopAt: 100 };

describe("what loops did together", () => {
  const course = courseOf(
    [process([0, 5, 10, 0], [10, 22, 30, 0], [30, 33, 40, 0]), process([0, 12, 20, 0], [20, 101, 101, 0])],
    frame,
  );

  it("finds the gaps between one holder and the next across processes, inside the window only", () => {
    expect(course.gaps).toEqual([2, 2, 3]);
  });

  it("tells hand-offs to others from a loop that takes its own lock again", () => {
    expect(course.gapsToOthers).toEqual([2, 2]);
  });

  it("counts the waits of all that asked in time, also of who was served in the end", () => {
    expect(course.waits.toSorted((one, other) => one - other)).toEqual([3, 12, 12, 81]);
  });

  it("adds up grants per loop and what all processes sent", () => {
    expect(course).toMatchObject({ perLoop: [2, 1], grants: 3, sentInWindow: 8, sent: 20, operations: 5 });
  });

  it("refuses a run in which two held the lock at once", () => {
    const overlapping = [process([0, 5, 10, 0]), process([0, 9, 20, 0])];
    expect(() => courseOf(overlapping, frame)).toThrow("two held the lock at once");
  });

  it("takes a loop that got nothing as one that got one", () => {
    expect(unfairness([8, 0, 4])).toBe(8);
    expect(unfairness([8, 4])).toBe(2);
  });
});
