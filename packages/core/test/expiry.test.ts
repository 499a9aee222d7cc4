import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ExpiryScheduler, type ScheduledLease } from "../src/kernel/context/expiry.js";

class Sample implements ScheduledLease {
  readonly batches: Sample[][] = [];
  lapsedAt: number | undefined;
  onRenew: ((batch: readonly Sample[]) => void) | undefined;
  onLapse: (() => void) | undefined;
  readonly group: string;
  heapIndex = -1;
  renewAt: number;
  deadlineAt: number;
  readonly renewSlackMs: number;

  constructor(renewInMs: number, lapseInMs: number, group = "", renewSlackMs = 0) {
    const now = performance.now();
    this.group = group;
    this.renewAt = now + renewInMs;
    this.deadlineAt = now + lapseInMs;
    this.renewSlackMs = renewSlackMs;
  }

  renewAll(leases: readonly this[]): void {
    this.batches.push([...leases]);
    this.onRenew?.(leases);
  }

  lapse(): void {
    this.lapsedAt = performance.now();
    this.onLapse?.();
  }
}

const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;

const fake = (): void => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
};

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("ExpiryScheduler", () => {
  it("lapses leases in the order of their deadlines, whatever was added, changed and removed", () => {
    const action = fc.record({
      kind: fc.constantFrom("add", "change", "remove"),
      pick: fc.nat(),
      at: fc.integer({ min: 1, max: 900 }),
    });
    fake();
    fc.assert(
      fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
        const scheduler = new ExpiryScheduler();
        const order: Sample[] = [];
        const live: Sample[] = [];
        const now = performance.now();
        for (const { kind, pick, at } of actions) {
          const chosen = live[pick % Math.max(live.length, 1)];
          if (kind === "add" || !chosen) {
            const lease = new Sample(Infinity, at);
            lease.onLapse = () => order.push(lease);
            live.push(lease);
            scheduler.add(lease);
          } else if (kind === "change") {
            chosen.deadlineAt = now + at;
            scheduler.changed(chosen);
          } else {
            live.splice(live.indexOf(chosen), 1);
            scheduler.remove(chosen);
          }
        }
        expect(scheduler.size).toBe(live.length);
        vi.advanceTimersByTime(1_000);
        expect(scheduler.size).toBe(0);
        expect(new Set(order)).toEqual(new Set(live));
        const deadlines = order.map(({ deadlineAt }) => deadlineAt);
        expect(deadlines).toEqual([...deadlines].sort((a, b) => a - b));
        for (const { lapsedAt, deadlineAt } of order) {
          expect(lapsedAt! - deadlineAt).toBeGreaterThanOrEqual(0);
          expect(lapsedAt! - deadlineAt).toBeLessThanOrEqual(1);
        }
        expect(vi.getTimerCount()).toBe(0);
      }),
      { numRuns: 300 },
    );
  });

  it("never lapses before the deadline, by the real timer", async () => {
    const scheduler = new ExpiryScheduler();
    for (let round = 0; round < 10; round++) {
      const lease = new Sample(Infinity, 20);
      await new Promise<void>((resolve) => {
        lease.onLapse = resolve;
        scheduler.add(lease);
        // The scheduler's own timer lets the process end.
        const keep = setTimeout(() => undefined, 60_000);
        lease.onLapse = () => (clearTimeout(keep), resolve());
      });
      expect(lease.lapsedAt!).toBeGreaterThanOrEqual(lease.deadlineAt);
    }
  });

  it("renews those of a group that are due in batches of at most a hundred", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const leases = Array.from({ length: 250 }, () => new Sample(10, 1_000));
    for (const lease of leases) scheduler.add(lease);
    vi.advanceTimersByTime(15);
    const batches = leases.flatMap(({ batches }) => batches);
    expect(batches.map(({ length }) => length)).toEqual([100, 100, 50]);
    expect(new Set(batches.flat())).toEqual(new Set(leases));
  });

  it("never renews two groups in one batch", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const leases = Array.from({ length: 30 }, (_, index) => new Sample(10, 1_000, String(index % 3)));
    for (const lease of leases) scheduler.add(lease);
    vi.advanceTimersByTime(15);
    const batches = leases.flatMap(({ batches }) => batches);
    expect(batches.map((batch) => new Set(batch.map(({ group }) => group)).size)).toEqual([1, 1, 1]);
  });

  it("takes along those of the group whose slack reaches back to now, and only those", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const due = new Sample(10, 1_000);
    const near = new Sample(60, 1_000, "", 60);
    const far = new Sample(200, 1_000, "", 60);
    const foreign = new Sample(60, 1_000, "other", 60);
    for (const lease of [due, near, far, foreign]) scheduler.add(lease);
    vi.advanceTimersByTime(15);
    expect(due.batches).toEqual([[due, near]]);
    expect([far.batches, foreign.batches]).toEqual([[], []]);
  });

  it("asks once: a renewal under way is not asked for again, and its deadline still counts", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const lease = new Sample(10, 500);
    scheduler.add(lease);
    vi.advanceTimersByTime(400);
    expect(lease.batches).toHaveLength(1);
    expect(lease.renewAt).toBe(Infinity);
    vi.advanceTimersByTime(101);
    expect(lease.lapsedAt).toBeDefined();
  });

  it("keeps renewing a lease that its renewer schedules again", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const lease = new Sample(10, 100);
    lease.onRenew = () => {
      lease.renewAt = performance.now() + 10;
      lease.deadlineAt = performance.now() + 100;
      scheduler.changed(lease);
    };
    scheduler.add(lease);
    vi.advanceTimersByTime(1_005);
    expect(lease.batches.length).toBeGreaterThan(45);
    expect(lease.lapsedAt).toBeUndefined();
  });

  it("renews everything at once when asked, save what is under way", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const idle = new Sample(5_000, 10_000);
    const busy = new Sample(Infinity, 10_000);
    scheduler.add(idle);
    scheduler.add(busy);
    scheduler.renewNow();
    vi.advanceTimersByTime(2);
    expect(idle.batches).toEqual([[idle]]);
    expect(busy.batches).toEqual([]);
  });

  it("renews everything within a second when the wall clock parts from the monotonic one, in either direction", () => {
    for (const step of [3_600_000, -3_600_000, 1_500]) {
      fake();
      const scheduler = new ExpiryScheduler();
      const lease = new Sample(60_000, 120_000);
      scheduler.add(lease);
      vi.advanceTimersByTime(2_500);
      expect(lease.batches).toEqual([]);
      vi.setSystemTime(Date.now() + step);
      vi.advanceTimersByTime(1_005);
      expect(lease.batches).toHaveLength(1);
      // Once per step, not once per look.
      lease.renewAt = performance.now() + 60_000;
      scheduler.changed(lease);
      vi.advanceTimersByTime(3_000);
      expect(lease.batches).toHaveLength(1);
      vi.useRealTimers();
    }
  });

  it("lets small steps of the wall clock pass", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const lease = new Sample(60_000, 120_000);
    scheduler.add(lease);
    vi.setSystemTime(Date.now() + 900);
    vi.advanceTimersByTime(3_000);
    expect(lease.batches).toEqual([]);
  });

  it("continues with the others when one of them throws", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const bad = new Sample(Infinity, 10);
    bad.onLapse = () => {
      throw new Error("of the lease");
    };
    const good = new Sample(Infinity, 30);
    scheduler.add(bad);
    scheduler.add(good);
    expect(() => vi.advanceTimersByTime(20)).toThrow("of the lease");
    vi.advanceTimersByTime(20);
    expect(good.lapsedAt).toBeDefined();
  });

  it("has one timer for all, and none a second after the last", () => {
    fake();
    const scheduler = new ExpiryScheduler();
    const leases = Array.from({ length: 1_000 }, (_, index) => new Sample(index, 10_000 + index));
    for (const lease of leases) scheduler.add(lease);
    expect(vi.getTimerCount()).toBe(1);
    for (const lease of leases) scheduler.remove(lease);
    expect(scheduler.size).toBe(0);
    vi.advanceTimersByTime(1_000);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("does not keep a process alive", () => {
    const before = timers();
    const scheduler = new ExpiryScheduler();
    const lease = new Sample(60_000, 60_000);
    scheduler.add(lease);
    expect(timers()).toBe(before);
    scheduler.remove(lease);
  });

  it("ignores leases that it does not have", () => {
    const scheduler = new ExpiryScheduler();
    const lease = new Sample(10, 20);
    scheduler.changed(lease);
    scheduler.remove(lease);
    expect(scheduler.size).toBe(0);
  });
});
