// A long run with visitors and random faults. It checks the invariants, and measures the growth of the heap.
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { hasBooks, itemsHold, moneyHolds, nobodyInDebt } from "./market/auditor.js";
import type { FaultName, Faults } from "./behind/faults.js";
import type { Shop } from "./behind/shop.js";

export interface SoakReport {
  readonly ok: boolean;
  readonly minutes: number;
  readonly faults: Readonly<Record<string, { good: number; bad: number; said: string[] }>>;
  readonly looks: number;
  readonly broken: readonly string[];
  readonly sales: number;
  readonly heapMb: readonly number[];
  /** Active resources of the web process, such as timers and sockets, sampled with `heapMb`. */
  readonly resources: readonly number[];
  /** Growth over the second half of the run, by least squares. */
  readonly heapSlopeMbPerHour: number;
}

const pauseMs = 5_000;
const sampleMs = 30_000;

const collectGarbage = (): void => {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
};

const slopeOf = (points: readonly (readonly [hour: number, mb: number])[]): number => {
  const mean = (at: 0 | 1): number => points.reduce((sum, point) => sum + point[at], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const above = points.reduce((sum, [hour, mb]) => sum + (hour - x) * (mb - y), 0);
  return (
    above /
    Math.max(
      1e-9,
      points.reduce((sum, [hour]) => sum + (hour - x) ** 2, 0),
    )
  );
};

export const soak = async (shop: Shop, faults: Faults, minutes: number): Promise<SoakReport> => {
  // V8 counts compiled code as heap and compiles as long as a process lives. That would look like a leak.
  for (const flag of ["--no-opt", "--no-sparkplug"]) setFlagsFromString(flag);
  const startedAt = performance.now();
  const endsAt = startedAt + minutes * 60_000;
  const pressed: Record<string, { good: number; bad: number; said: string[] }> = {};
  const broken: string[] = [];
  const samples: [number, number][] = [];
  const resources: number[] = [];
  let looks = 0;
  let sampledAt = Number.NEGATIVE_INFINITY;
  while (performance.now() < endsAt) {
    const names = faults.list().map(({ name }) => name);
    const name = names[Math.floor(Math.random() * names.length)] as FaultName;
    faults.begin(name);
    while (faults.list().some((one) => one.isRunning)) await sleep(200);
    const { outcome } = faults.list().find((one) => one.name === name) ?? {};
    const tally = (pressed[name] ??= { good: 0, bad: 0, said: [] });
    if (outcome?.isGood) tally.good++;
    else {
      tally.bad++;
      tally.said.push(outcome?.text ?? "nothing");
    }
    await sleep(pauseMs);
    const audit = await shop.auditor.fresh();
    looks++;
    if (!hasBooks(audit) || !moneyHolds(audit) || !itemsHold(audit) || !nobodyInDebt(audit))
      broken.push(JSON.stringify(audit));
    if (performance.now() - sampledAt < sampleMs) continue;
    sampledAt = performance.now();
    collectGarbage();
    resources.push(process.getActiveResourcesInfo().length);
    samples.push([(sampledAt - startedAt) / 3_600_000, process.memoryUsage().heapUsed / 1_048_576]);
  }
  const { sales } = await shop.auditor.fresh();
  const half = samples.slice(Math.floor(samples.length / 2));
  return {
    ok: broken.length === 0 && Object.values(pressed).every(({ bad }) => bad === 0),
    ...{ minutes, faults: pressed, looks, broken, sales },
    heapMb: samples.map(([, mb]) => Math.round(mb * 10) / 10),
    resources,
    heapSlopeMbPerHour: Math.round(slopeOf(half) * 10) / 10,
  };
};
