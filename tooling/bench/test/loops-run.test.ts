import { describe, expect, it } from "vitest";
import { loopsRunOf, excessOf, unfairness } from "../src/loops/loops-run.js";
import type { LoopsResult } from "../src/loops/loops-jobs.js";

/** Rows of asked, running, giving back, loop. */
const process = (...rows: readonly (readonly [number, number, number, number])[]): LoopsResult => ({
  requested: Float64Array.from(rows, ([asked]) => asked),
  granted: Float64Array.from(rows, ([, granted]) => granted),
  released: Float64Array.from(rows, ([, , released]) => released),
  loop: Float64Array.from(rows, ([, , , loop]) => loop),
  sentInWindow: 4,
  sent: 10,
});

const frame = { loopsPerProcess: 1, countFrom: 10, stopAt: 100, permits: 1 };

describe("what loops did together", () => {
  const run = loopsRunOf(
    [process([0, 5, 10, 0], [10, 22, 30, 0], [30, 33, 40, 0]), process([0, 12, 20, 0], [20, 101, 101, 0])],
    frame,
  );

  it("finds the gaps between one holder and the next across processes, inside the window only", () => {
    expect(run.gaps).toEqual([2, 2, 3]);
  });

  it("tells hand-offs to others from a loop that takes its own lock again", () => {
    expect(run.gapsToOthers).toEqual([2, 2]);
  });

  it("counts the waits of all that asked in time, also of who was served in the end", () => {
    expect(run.waits.toSorted((one, other) => one - other)).toEqual([3, 12, 12, 81]);
  });

  it("adds up grants per loop and what all processes sent", () => {
    expect(run).toMatchObject({ perLoop: [2, 1], grants: 3, sentInWindow: 8, sent: 20, operations: 5 });
  });

  it("refuses a run in which two held the lock at once", () => {
    const overlapping = [process([0, 5, 10, 0]), process([0, 9, 20, 0])];
    expect(() => loopsRunOf(overlapping, frame)).toThrow("2 held at once what 1 may");
  });

  it("finds the gap after the place that came free first, where several may hold", () => {
    const two = [process([0, 10, 30, 0], [30, 33, 50, 0]), process([0, 12, 20, 0], [20, 24, 40, 0])];
    const { gaps, gapsToOthers, holds } = loopsRunOf(two, { ...frame, permits: 2 });
    expect(gaps).toEqual([4, 3]);
    expect(gapsToOthers).toEqual([]);
    expect(holds).toEqual([20, 8, 16, 17]);
  });

  it("counts who came in above the limit, and the worst moment of that", () => {
    const three = [
      process([0, 1, 10, 0], [10, 12, 14, 0]),
      process([0, 2, 9, 0]),
      process([0, 3, 4, 0], [4, 10, 11, 0]),
    ];
    expect(excessOf(three, 1)).toEqual({ atOnce: 2, admissions: 2, of: 5 });
    expect(excessOf(three, 2)).toEqual({ atOnce: 1, admissions: 1, of: 5 });
    expect(excessOf(three, 3)).toEqual({ atOnce: 0, admissions: 0, of: 5 });
  });

  it("takes a loop that got nothing as one that got one", () => {
    expect(unfairness([8, 0, 4])).toBe(8);
    expect(unfairness([8, 4])).toBe(2);
  });
});
