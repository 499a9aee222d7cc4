import { randomInt } from "node:crypto";
import { describe, expect, it } from "vitest";
import { planOf } from "../src/leg.js";
import { rows } from "../src/rows/index.js";
import type { Row } from "../src/rows/row.js";
import type { LegReport } from "../src/workload.js";
import { lockWorkload } from "../src/workloads/lock/index.js";

/** `SEED=<the one that a failure names>` plays the same strikes again. */
const someSeed = (): number => Number(process.env["SEED"] ?? randomInt(2 ** 31));
const runTimeoutMs = 150_000;

/** Here there is no network of our own, so no rule of a firewall. */
const available = rows.filter(({ whyNot }) => whyNot?.() === undefined);

/** Expects that every row bit, and that every law was kept. */
const expectLawful = async (
  mode: "single" | "cluster",
  setting: Row["setting"],
  chosen: readonly Row[],
  strikes: number,
): Promise<LegReport> => {
  const seed = someSeed();
  const report = await lockWorkload.run({ seed, setting, mode, rows: chosen, isOver: (struck) => struck >= strikes });
  const told = `SEED=${String(seed)}`;
  expect(report.violations.slice(0, 20), told).toEqual([]);
  expect(
    [...report.bites].filter(([, count]) => count === 0),
    told,
  ).toEqual([]);
  expect(report.operations, told).toBeGreaterThan(200);
  return report;
};

describe("The lock under faults", () => {
  it.each(["kept", "lost", "shifted"] as const)(
    "keeps every law while each fault strikes once, %s",
    async (setting) => {
      const chosen = available.filter((row) => row.setting === setting);
      expect(chosen).not.toEqual([]);
      await expectLawful("single", setting, chosen, 1);
    },
    runTimeoutMs,
  );

  it(
    "frees what dead holders held, on a single server",
    async () => {
      const killing = rows.filter(({ number }) => number === 1);
      const report = await expectLawful("single", "kept", killing, 10);
      expect(report.checked["L4"]).toBeGreaterThanOrEqual(5);
    },
    runTimeoutMs,
  );

  it(
    "keeps every law on a Cluster",
    async () => {
      const chosen = rows.filter(({ isForCluster = false }) => isForCluster);
      const report = await expectLawful("cluster", "kept", chosen, 20);
      expect(report.checked["L4"]).toBeGreaterThanOrEqual(1);
    },
    runTimeoutMs,
  );
});

describe("The checker", () => {
  it.each(lockWorkload.controls.map((control) => [control.name, control] as const))(
    "sees what is wrong with the control %s",
    async (_, control) => {
      const seed = someSeed();
      const chosen = rows.filter(({ kind }) => kind === control.kind);
      const broken = new Set<string>();
      // Whether a fault shows depends on where the strikes fall.
      for (let run = 0; run < 4 && !control.laws.some((law) => broken.has(law)); run++) {
        const isOver = (struck: number): boolean => struck >= 3 + 5 * run;
        const { violations } = await lockWorkload.run({
          seed: seed + run,
          setting: "kept",
          rows: chosen,
          isOver,
          control,
        });
        for (const { law } of violations) broken.add(law);
      }
      expect(
        control.laws.filter((law) => broken.has(law)),
        `SEED=${String(seed)}, broken: ${[...broken].join()}`,
      ).not.toEqual([]);
    },
    runTimeoutMs,
  );

  it.each(lockWorkload.edges.map((edge) => [edge.kind, edge] as const))(
    "finds nothing broken by %s",
    async (_, edge) => {
      const { bites, broken } = await edge.run();
      expect(broken).toEqual([]);
      expect(bites).toBeGreaterThan(0);
    },
  );
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
