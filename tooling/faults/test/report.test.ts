import { existsSync, rmSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { campaign, type CampaignReport } from "../src/campaign.js";
import { noteRejection } from "../src/lab/rejections.js";
import { noFirewall } from "../src/lab/network.js";
import { faults } from "../src/faults/index.js";
import type { PhaseOptions, PhaseReport, Workload } from "../src/workload.js";
import { workload as lockWorkload } from "../src/workloads/lock/index.js";

const control = { name: "a-control", invariants: ["L1"], kind: "scripts flushed" };

/** A workload that says what it is told to: a report's verdict is judged here, not a package. */
const aWorkload = (told: Partial<PhaseReport>, isSeen = true): Workload => ({
  name: "nothing",
  invariants: ["L1"],
  faults,
  shares: { kept: 0.5, lost: 0.3, shifted: 0.2 },
  controls: [control],
  run: async ({ faults: injected, control: broken }: PhaseOptions) => {
    const report: PhaseReport = {
      operations: 1_000_000,
      opsByOutcome: { ok: 1_000_000 },
      effects: new Map(injected.map(({ kind }) => [kind, 1])),
      violations: [],
      checked: { L1: 7 },
      recoveries: [{ kind: "scripts flushed", ms: 4 }],
      worstStallMs: 3,
      duplicates: 2,
      run: "all that is known",
    };
    return broken
      ? { ...report, violations: isSeen ? [{ invariant: "L1", what: "broken" }] : [] }
      : { ...report, ...told };
  },
});

const said: string[] = [];
const run = (workload: Workload, only?: string): Promise<CampaignReport> =>
  campaign(workload, { seconds: 1, seed: 5, only, say: (line) => said.push(line) });

const kept: string[] = [];
afterEach(() => {
  for (const file of kept.splice(0)) rmSync(file);
});

/** Faults that cannot be injected in this process. */
const missing = faults.flatMap(({ kind, whyNot }) => (whyNot?.() === undefined ? [] : [kind]));

describe("A report", () => {
  it("passes when all faults took effect, no invariant was broken and the controls were caught", async () => {
    const report = await run(aWorkload({}));
    expect(report.failures).toEqual([]);
    expect(report).toMatchObject({ violations: 0, controls: [{ name: "a-control", caught: true }] });
    expect(report.recoveryMs).toEqual({ "scripts flushed": { p50: 4, p99: 4, max: 4 } });
    expect(Object.keys(report.notRun)).toEqual(missing);
    const counted = faults.map(({ kind }) => kind).filter((kind) => !missing.includes(kind));
    expect(Object.keys(report.faults)).toEqual(counted);
  });

  it("fails on a violation, and keeps its run in a file", async () => {
    const { failures, broken, invariants } = await run(
      aWorkload({ violations: [{ invariant: "L1", what: "it went back" }] }),
      "scripts flushed",
    );
    kept.push(...broken.map((one) => one.kept));
    expect(failures).toEqual(["1 violations"]);
    expect(broken).toMatchObject([{ invariant: "L1", what: "it went back" }]);
    expect(invariants).toEqual([{ name: "L1", checked: 7, violated: 1 }]);
    expect(kept.every((file) => existsSync(file))).toBe(true);
  });

  it("fails on a rejection that nobody handled, in a worker, in a worker of a control or in the lab", async () => {
    const one = await run(
      aWorkload({ unhandled: ["w1: Error: Connection is closed.\n    at close"] }),
      "scripts flushed",
    );
    expect(one.unhandledRejections).toBe(1);
    expect(one.failures).toEqual(["1 unhandled rejections, such as w1: Error: Connection is closed."]);
    const workload = aWorkload({});
    const controlled = await run({
      ...workload,
      run: async (options) => ({
        ...(await workload.run(options)),
        ...(options.control && { unhandled: ["w2: Error"] }),
      }),
    });
    expect(controlled.failures).toEqual(["1 unhandled rejections, such as w2: Error"]);
    noteRejection(new Error("nobody heard"));
    expect((await run(workload, "scripts flushed")).failures).toEqual([
      "1 unhandled rejections, such as the lab: Error: nobody heard",
    ]);
    expect((await run(workload, "scripts flushed")).unhandledRejections).toBe(0);
  });

  it("fails on a fault that never took effect", async () => {
    const { failures } = await run(aWorkload({ effects: new Map() }), "scripts flushed");
    expect(failures).toEqual(['"scripts flushed" never took effect']);
  });

  it("ends after so many injections, however few operations there were", async () => {
    const ends: boolean[] = [];
    const workload = aWorkload({ operations: 1 });
    const injected: Workload = {
      ...workload,
      run: (options) => {
        ends.push(options.isOver(2), options.isOver(3));
        return workload.run(options);
      },
    };
    const options = { seconds: 1_000, seed: 5, only: "scripts flushed", injections: 3, say: () => undefined };
    const { failures, seconds } = await campaign(injected, options);
    expect([ends, failures]).toEqual([[false, true], []]);
    expect(seconds).toBeLessThan(1_000);
  });

  it("fails on too few operations", async () => {
    const { failures } = await run(aWorkload({ operations: 99 }), "scripts flushed");
    expect(failures).toEqual(["only 99 operations, of 100"]);
  });

  it("fails on a control that was not caught", async () => {
    const { failures } = await run(aWorkload({}, false));
    expect(failures).toEqual(["the control a-control was not caught"]);
  });

  it("leaves out a control that needs ioredis where the package runs on another client", async () => {
    const workload = { ...aWorkload({}, false), controls: [{ ...control, needsIoredis: true }] };
    const reports = ["ioredis", "node-redis"] as const;
    const [on, off] = await Promise.all(
      reports.map((client) => campaign(workload, { seconds: 1, seed: 5, client, say: () => undefined })),
    );
    expect(on?.controls).toEqual([{ name: "a-control", caught: false }]);
    expect(off).toMatchObject({ client: "node-redis", controls: [] });
  });

  it("fails when the only requested fault cannot be injected on this machine", async () => {
    const why = noFirewall();
    expect(why).toBeDefined();
    const { failures, notRun } = await run(lockWorkload, "packets dropped");
    expect(notRun).toEqual({ "packets dropped": why });
    expect(failures).toEqual([`"packets dropped" was not run: ${why ?? ""}`]);
  });
});
