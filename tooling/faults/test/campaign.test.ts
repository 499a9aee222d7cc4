import { randomInt } from "node:crypto";
import type { RedisMode } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { planOf } from "../src/leg.js";
import { rows } from "../src/rows/index.js";
import type { Row } from "../src/rows/row.js";
import type { Control, LegOptions, LegReport, Workload } from "../src/workload.js";
import { workload as coreWorkload } from "../src/workloads/core/index.js";
import { workload as lockWorkload } from "../src/workloads/lock/index.js";
import { workload as semaphoreWorkload } from "../src/workloads/semaphore/index.js";

/** `SEED=<the one that a failure names>` plays the same strikes again. */
const someSeed = (): number => Number(process.env["SEED"] ?? randomInt(2 ** 31));
const runTimeoutMs = 150_000;

/** Here there is no network of our own, so no rule of a firewall. */
const available = rows.filter(({ whyNot }) => whyNot?.() === undefined);

/** Expects that every row bit, and that every law was kept. */
const expectLawful = async (
  workload: Workload,
  setting: LegOptions["setting"],
  chosen: readonly Row[],
  strikes: number,
  mode?: RedisMode,
): Promise<LegReport> => {
  const seed = someSeed();
  const isOver = (struck: number): boolean => struck >= strikes;
  const report = await workload.run({ seed, setting, rows: chosen, isOver, ...(mode && { mode }) });
  const told = `SEED=${String(seed)}`;
  expect(report.violations.slice(0, 20), told).toEqual([]);
  expect(
    [...report.bites].filter(([, count]) => count === 0),
    told,
  ).toEqual([]);
  expect(report.operations, told).toBeGreaterThan(200);
  return report;
};

/** Expects that one of the laws that a control is said to break is seen broken. */
const expectCaught = async (workload: Workload, control: Control): Promise<void> => {
  const seed = someSeed();
  const chosen = workload.rows.filter(({ kind }) => kind === control.kind);
  const broken = new Set<string>();
  // Whether a fault shows depends on where the strikes fall.
  for (let run = 0; run < 4 && !control.laws.some((law) => broken.has(law)); run++) {
    const isOver = (struck: number): boolean => struck >= (control.strikes ?? 3) + 5 * run;
    const setting = chosen[0]?.setting ?? "kept";
    const { violations } = await workload.run({ seed: seed + run, setting, rows: chosen, isOver, control });
    for (const { law } of violations) broken.add(law);
  }
  expect(
    control.laws.filter((law) => broken.has(law)),
    `SEED=${String(seed)}, broken: ${[...broken].join()}`,
  ).not.toEqual([]);
};

describe("The lock under faults", () => {
  it.each(["kept", "lost", "shifted"] as const)(
    "keeps every law while each fault strikes once, %s",
    async (setting) => {
      const chosen = available.filter((row) => row.setting === setting);
      expect(chosen).not.toEqual([]);
      await expectLawful(lockWorkload, setting, chosen, 1);
    },
    runTimeoutMs,
  );

  it(
    "frees what dead holders held, on a single server",
    async () => {
      const killing = rows.filter(({ number }) => number === 1);
      const report = await expectLawful(lockWorkload, "kept", killing, 10);
      expect(report.checked["L4"]).toBeGreaterThanOrEqual(5);
    },
    runTimeoutMs,
  );

  it(
    "keeps every law on a Cluster",
    async () => {
      const chosen = rows.filter(({ isForCluster = false }) => isForCluster);
      const report = await expectLawful(lockWorkload, "kept", chosen, 20, "cluster");
      expect(report.checked["L4"]).toBeGreaterThanOrEqual(1);
    },
    runTimeoutMs,
  );
});

// Each row has its turn in a campaign; here are some of every kind.
const coreRows: readonly (readonly [setting: LegOptions["setting"], numbers: readonly number[]])[] = [
  ["kept", [1, 5, 6, 8, 11, 14, 16, 27, 32, 35]],
  ["lost", [6, 7, 13]],
  ["failover", [19, 21]],
  ["cluster", [23]],
];

const semaphoreRows: readonly (readonly [setting: LegOptions["setting"], numbers: readonly number[]])[] = [
  ["kept", [1, 2, 5, 6, 8, 11, 12, 16, 25, 27, 32]],
  ["lost", [6, 7, 13, 34]],
  ["shifted", [26]],
  ["failover", [19, 20]],
  ["cluster", [23]],
];

/** Those of a workload that are named, and can be had here. */
const chosenOf = (workload: Workload, setting: LegOptions["setting"], numbers: readonly number[]): Row[] =>
  workload.rows.filter(
    (row) => row.setting === setting && numbers.includes(row.number) && row.whyNot?.() === undefined,
  );

describe("Configuration and durable writes under faults", () => {
  it.each(coreRows)(
    "keep every law, %s",
    async (setting, numbers) => {
      await expectLawful(coreWorkload, setting, chosenOf(coreWorkload, setting, numbers), 1);
    },
    runTimeoutMs,
  );
});

describe("The semaphore under faults", () => {
  it.each(semaphoreRows)(
    "keeps every law, %s",
    async (setting, numbers) => {
      await expectLawful(semaphoreWorkload, setting, chosenOf(semaphoreWorkload, setting, numbers), 1);
    },
    runTimeoutMs,
  );

  it(
    "gives on what dead holders had",
    async () => {
      const report = await expectLawful(semaphoreWorkload, "kept", chosenOf(semaphoreWorkload, "kept", [1]), 8);
      expect(report.checked["S2"]).toBeGreaterThanOrEqual(8);
      // The scripts wrote down what they did.
      for (const law of ["S1", "order"]) expect(report.checked[law]).toBeGreaterThan(200);
    },
    runTimeoutMs,
  );

  it(
    "keeps every law on a Cluster",
    async () => {
      const chosen = semaphoreWorkload.rows.filter(({ isForCluster = false }) => isForCluster);
      await expectLawful(semaphoreWorkload, "kept", chosen, 12, "cluster");
    },
    runTimeoutMs,
  );
});

describe("The checker", () => {
  it.each(lockWorkload.controls.map((control) => [control.name, control] as const))(
    "sees what is wrong with the lock's control %s",
    (_, control) => expectCaught(lockWorkload, control),
    runTimeoutMs,
  );

  it.each(coreWorkload.controls.map((control) => [control.name, control] as const))(
    "sees what is wrong with core's control %s",
    (_, control) => expectCaught(coreWorkload, control),
    runTimeoutMs,
  );

  it.each(semaphoreWorkload.controls.map((control) => [control.name, control] as const))(
    "sees what is wrong with the semaphore's control %s",
    (_, control) => expectCaught(semaphoreWorkload, control),
    runTimeoutMs,
  );

  it.each(
    [lockWorkload, semaphoreWorkload].flatMap(({ name, edges }) =>
      edges.map((edge) => [name, edge.kind, edge] as const),
    ),
  )("finds nothing broken in the %s by %s", async (_, __, edge) => {
    const { bites, broken } = await edge.run();
    expect(broken).toEqual([]);
    expect(bites).toBeGreaterThan(0);
  });
});

describe("A plan", () => {
  const first = (seed: number, count: number): unknown[] => {
    const plan = planOf(seed, rows);
    return Array.from({ length: count }, () => {
      const { row, ...chance } = plan.next().value;
      return { kind: row.kind, ...chance };
    });
  };

  it("is the same for the same seed, in rows, order, instants and chance", () => {
    expect(first(7, 100)).toEqual(first(7, 100));
    expect(first(7, 100)).not.toEqual(first(8, 100));
  });

  it("has each row in every round, as often as it wants", () => {
    const plan = planOf(7, rows);
    const wanted = rows.flatMap(({ kind, times = 1 }) => Array.from({ length: times }, () => kind)).toSorted();
    const round = (): string[] => wanted.map(() => plan.next().value.row.kind).toSorted();
    expect([round(), round()]).toEqual([wanted, wanted]);
  });
});
