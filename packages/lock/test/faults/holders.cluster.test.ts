import { describe, expect, it } from "vitest";
import { expectLawful, expectUnlawful, runTimeoutMs } from "./expect.js";
import { lockWithBug } from "./seeded-bugs.js";
import { awaitBlocked, flushScripts, killHolder, silenceServer, stopHolder } from "./strikes.js";

describe.each(["single", "cluster"] as const)("kill -9 of holders, %s", (mode) => {
  it(
    "frees a dead holder's lock within its lease and keeps every law",
    async () => {
      const report = await expectLawful({ mode, strike: killHolder, strikes: 30 });
      expect(report.judgedDeaths).toBeGreaterThanOrEqual(10);
    },
    runTimeoutMs,
  );
});

describe("holders that stand still", () => {
  it(
    "SIGSTOP beyond the lease: the late holder's writes are refused, and every law is kept",
    async () => {
      const report = await expectLawful({ strike: stopHolder });
      expect(report.refusals).toBeGreaterThan(0);
    },
    runTimeoutMs,
  );

  it(
    "an event loop blocked beyond the lease: the late holder's writes are refused, and every law is kept",
    async () => {
      const report = await expectLawful({ strike: awaitBlocked, blockChance: 0.1 });
      expect(report.refusals).toBeGreaterThan(0);
    },
    runTimeoutMs,
  );
});

describe("controls, which the checker must catch", () => {
  it(
    "a register that takes whatever comes loses updates to stopped holders",
    async () => {
      const report = await expectUnlawful(["L2"], { strike: stopHolder, strikes: 8, isFenced: false });
      expect(report.staleWrites).toBeGreaterThan(0);
    },
    runTimeoutMs,
  );

  it.each([
    ["a release that does not ask whose lock it is", ["L5", "exclusion"], stopHolder],
    ["a renewal that does not ask whose lock it is", ["L5"], flushScripts],
    ["a fencing token that does not grow", ["L1"], flushScripts],
    ["a deadline that is a second too late", ["L3"], silenceServer],
  ] as const)(
    "%s",
    async (bug, laws, strike) => {
      await expectUnlawful(laws, { strike, strikes: 8, lockModule: lockWithBug(bug) });
    },
    runTimeoutMs,
  );
});
