import { randomInt } from "node:crypto";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { campaign } from "../src/campaign.js";
import { planOf } from "../src/phase.js";
import { faults } from "../src/faults/index.js";
import type { Workload } from "../src/workload.js";

// These runs share the machine with other tests; how soon something has to happen is judged by `npm run faults`.
vi.hoisted(() => (process.env["KIT_FAULTS_PATIENCE"] = "5"));

/** `SEED=<the one that a failure names>` replays the same injections. */
const someSeed = (): number => Number(process.env["SEED"] ?? randomInt(2 ** 31));
const calmMs = 300;
const folder = new URL("../src/workloads/", import.meta.url);
const workloads: readonly Workload[] = await Promise.all(
  readdirSync(folder).map(
    async (name) =>
      ((await import(new URL(`${name}/index.ts`, folder).href)) as { readonly workload: Workload }).workload,
  ),
);

/**
 * A short run of each workload: a process that dies, connections that are killed, replies that are lost, scripts that are
 * gone. `npm run faults` has all faults, all settings, and the controls, which show that each checker sees what it is for.
 */
const kinds = ["worker killed", "scripts flushed", "command connections killed", "replies lost"];

describe.each(workloads.map((workload) => [workload.name, workload] as const))("The run of %s", (_, workload) => {
  it("keeps every invariant while each fault takes effect once", async () => {
    const seed = someSeed();
    const chosen = workload.faults.filter(({ kind, setting }) => setting === "kept" && kinds.includes(kind));
    expect(chosen).toHaveLength(kinds.length);
    const isOver = (effective: number): boolean => effective >= 1;
    const report = await workload.run({ seed, setting: "kept", faults: chosen, isOver, calmMs });
    const seedText = `SEED=${String(seed)}`;
    expect(report.violations.slice(0, 20), seedText).toEqual([]);
    expect([...report.effects.keys()].toSorted(), seedText).toEqual(kinds.toSorted());
    expect(Math.min(...report.effects.values()), seedText).toBeGreaterThan(0);
    // Something was done, and something judged.
    expect(report.operations, seedText).toBeGreaterThan(kinds.length);
    expect(Math.max(...Object.values(report.checked)), seedText).toBeGreaterThan(kinds.length);
  });
});

it("has a workload for every package", () => {
  expect(workloads.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["chat", "core", "lock", "semaphore", "stats"]),
  );
});

it("a campaign keeps the broken runs of two packages that have the same seed", async () => {
  const files: string[] = [];
  for (const name of ["one", "other"]) {
    const run: Workload["run"] = async () => ({
      operations: 1,
      effects: new Map([["fault", 1]]),
      opsByOutcome: {},
      checked: { kept: 1 },
      violations: [{ invariant: "kept", what: name }],
      recoveries: [],
      worstStallMs: 0,
      duplicates: 0,
      run: {},
    });
    const fault = { kind: "fault", setting: "kept", inject: async () => ({ tookEffect: () => true }) } as const;
    const own = { name, invariants: ["kept"], faults: [fault], shares: { kept: 1 }, controls: [], run };
    const { broken } = await campaign(own, { seconds: 1, seed: 1, injections: 1, say: () => undefined });
    files.push(...broken.map(({ kept }) => kept));
  }
  expect(files.map((file) => (JSON.parse(readFileSync(file, "utf8")) as { violations: unknown }).violations)).toEqual(
    ["one", "other"].map((what) => [{ invariant: "kept", what }]),
  );
  for (const file of files) rmSync(file);
});

describe("A plan", () => {
  const first = (seed: number, count: number): unknown[] => {
    const plan = planOf(seed, faults);
    return Array.from({ length: count }, () => {
      const { fault, ...chance } = plan.next().value;
      return { kind: fault.kind, ...chance };
    });
  };

  it("is the same for the same seed, in faults, order, instants and chance", () => {
    expect(first(7, 100)).toEqual(first(7, 100));
    expect(first(7, 100)).not.toEqual(first(8, 100));
  });

  it("has each fault in every round, `times` times", () => {
    const plan = planOf(7, faults);
    const wanted = faults.flatMap(({ kind, times = 1 }) => Array.from({ length: times }, () => kind)).toSorted();
    const round = (): string[] => wanted.map(() => plan.next().value.fault.kind).toSorted();
    expect([round(), round()]).toEqual([wanted, wanted]);
  });
});
