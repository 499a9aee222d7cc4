import { getEventListeners, once } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { Batcher, type BatcherOptions, Flusher } from "../src/batching/index.js";
import { KitClosedError } from "../src/index.js";
import { Deadline } from "../src/toolkit/index.js";
import { rejection } from "./harness.js";

/** A batcher whose calls end when the test says so. */
const fixture = (options: Partial<BatcherOptions<string, string>> = {}) => {
  const calls: {
    items: readonly string[];
    answer: (results: readonly (string | Error)[]) => void;
    fail: (error: Error) => void;
  }[] = [];
  const sent = new EventTarget();
  const batcher = new Batcher<string, string>({
    send: (items) =>
      new Promise((resolve, reject) => {
        calls.push({ items, answer: resolve, fail: reject });
        sent.dispatchEvent(new Event("call"));
      }),
    deadlineMs: 60_000,
    late: (item, wasSent) => new Error(`${item} is late, ${wasSent ? "sent" : "not sent"}`),
    full: (item) => new Error(`no room for ${item}`),
    owner: "The fixture",
    maxItems: 100,
    maxBytes: 1_000,
    sizeOf: (item) => item.length,
    maxPending: 1_000,
    delayMs: 0,
    ...options,
  });
  const call = async (index: number) => {
    while (calls.length <= index) await once(sent, "call");
    return calls[index]!;
  };
  const echo = async (index: number): Promise<readonly string[]> => {
    const { items, answer } = await call(index);
    answer(items.map((item) => `${item}!`));
    return items;
  };
  return { batcher, calls, call, echo };
};

describe("Batcher", () => {
  it("sends what is added in one turn together, and what is added during a call in the next", async () => {
    const { batcher, calls, echo, call } = fixture();
    const first = [batcher.add("a"), batcher.add("b")];
    await call(0);
    const second = [batcher.add("c"), batcher.add("d")];
    expect(calls).toHaveLength(1);
    expect(await echo(0)).toEqual(["a", "b"]);
    expect(await Promise.all(first)).toEqual(["a!", "b!"]);
    expect(await echo(1)).toEqual(["c", "d"]);
    expect(await Promise.all(second)).toEqual(["c!", "d!"]);
  });

  it("asks once what becomes of an item that is late, even when others of its call are late after it", async () => {
    const asked: string[] = [];
    const late = (item: string, wasSent: boolean): Error => {
      asked.push(`${item} ${wasSent ? "sent" : "not sent"}`);
      return new Error(item);
    };
    const { batcher, call, echo } = fixture({ deadlineMs: 300, late });
    const first = batcher.add("first");
    await call(0);
    const early = rejection(batcher.add("a"));
    // oxlint-disable-next-line kit/no-sleep -- The deadlines of the two have to differ.
    await new Promise((resolve) => setTimeout(resolve, 100));
    const later = rejection(batcher.add("b"));
    await echo(0);
    await first;
    // Both travel in this call, which gets no answer.
    await call(1);
    await Promise.all([early, later]);
    // In this order unless the event loop stood still when the first was late.
    expect(asked.toSorted((one, other) => one.localeCompare(other))).toEqual(["a sent", "b sent"]);
  });

  it("does not take for late what the event loop had no turn to send", async () => {
    const { batcher, call, echo } = fixture({ deadlineMs: 300, maxItems: 2 });
    const all = ["a", "b", "c", "d"].map((item) => batcher.add(item));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
    for (const number of [0, 1]) {
      await call(number);
      // The server needs some turns.
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
      await echo(number);
    }
    expect(await Promise.all(all)).toEqual(["a!", "b!", "c!", "d!"]);
  });

  const standStill = (ms: number): unknown => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

  it("settles an item by its deadline next to an older one whose deadline a stall of the event loop has postponed", async () => {
    const { batcher, call } = fixture({ deadlineMs: 1_000 });
    const settled: string[] = [];
    const settles = (item: string): Promise<unknown> => rejection(batcher.add(item)).then(() => settled.push(item));
    const former = settles("postponed");
    await call(0);
    standStill(1_100);
    // Its deadline comes half a second after the stall, that of the other one a second after it.
    const inTime = settles("in time");
    standStill(500);
    await Promise.all([former, inTime]);
    expect(settled).toEqual(["in time", "postponed"]);
  });

  it("settles an item by its deadline if it was added after a stall that postponed all before it", async () => {
    const { batcher, call } = fixture({ deadlineMs: 200 });
    const settled: string[] = [];
    const settles = (item: string): Promise<unknown> => rejection(batcher.add(item)).then(() => settled.push(item));
    const former = settles("postponed");
    await call(0);
    standStill(400);
    // In these turns the timer fires that was due.
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    await Promise.all([former, settles("in time")]);
    expect(settled).toEqual(["postponed", "in time"]);
  });

  it("cuts batches by items and by bytes, and sends an item that is over by itself", async () => {
    const { batcher, echo } = fixture({ maxItems: 2, maxBytes: 10 });
    const all = ["1", "2", "3", "x".repeat(20), "4", "123456789", "5"].map((item) => batcher.add(item));
    const batches: (readonly string[])[] = [];
    for (let index = 0; index < 5; index++) batches.push(await echo(index));
    expect(batches.map((batch) => batch.map(({ length }) => length))).toEqual([[1, 1], [1], [20], [1, 9], [1]]);
    expect(await Promise.all(all)).toHaveLength(7);
  });

  it("rejects one item by an error among the results, and a whole batch by a rejection", async () => {
    const { batcher, call } = fixture();
    const [good, bad] = [batcher.add("good"), batcher.add("bad")];
    (await call(0)).answer(["fine", new Error("refused")]);
    await expect(good).resolves.toBe("fine");
    await expect(bad).rejects.toThrow("refused");
    const both = [batcher.add("a"), batcher.add("b")].map(rejection);
    (await call(1)).fail(new Error("lost"));
    expect(await Promise.all(both)).toEqual([new Error("lost"), new Error("lost")]);
  });

  it("never sends an item that was cancelled before, and ignores the result of one that was cancelled after", async () => {
    const { batcher, call, echo } = fixture();
    const controller = new AbortController();
    const early = new AbortController();
    const under = rejection(batcher.add("under way", controller.signal));
    await call(0);
    const waiting = rejection(batcher.add("waiting", early.signal));
    const other = batcher.add("other");
    early.abort(new Error("changed my mind"));
    controller.abort(new Error("too slow"));
    expect(await under).toEqual(new Error("too slow"));
    expect(await waiting).toEqual(new Error("changed my mind"));
    await echo(0);
    expect(await echo(1)).toEqual(["other"]);
    await expect(other).resolves.toBe("other!");
    expect(getEventListeners(early.signal, "abort")).toEqual([]);
    expect(batcher.pending).toBe(0);
  });

  it("settles a flush when all that waited was cancelled", async () => {
    const { batcher, calls, call, echo } = fixture();
    const first = batcher.add("first");
    await call(0);
    const controller = new AbortController();
    const waiting = rejection(batcher.add("waiting", controller.signal));
    const flushed = batcher.flush();
    controller.abort(new Error("no"));
    await echo(0);
    await Promise.all([flushed, first, waiting]);
    expect(calls).toHaveLength(1);
  });

  it("settles each item by its deadline, sent or not, and says which it was", async () => {
    const { batcher, call } = fixture({ deadlineMs: 60 });
    const sent = rejection(batcher.add("a"));
    await call(0);
    const waiting = rejection(batcher.add("b"));
    expect(await sent).toEqual(new Error("a is late, sent"));
    expect(await waiting).toEqual(new Error("b is late, not sent"));
    (await call(0)).answer(["too late"]);
    const next = batcher.add("c");
    const { items, answer } = await call(1);
    expect(items).toEqual(["c"]);
    answer(["c!"]);
    await expect(next).resolves.toBe("c!");
  });

  it("settles each item by its deadline even while a call continues past it, and rests meanwhile", async () => {
    const { batcher, call } = fixture({ deadlineMs: 20, maxItems: 1 });
    const sent = batcher.add("a");
    const { answer } = await call(0);
    expect((await rejection(sent)).message).toBe("a is late, sent");
    // It comes when nobody's deadline is ahead any more.
    expect((await rejection(batcher.add("b"))).message).toBe("b is late, not sent");
    const turns = vi.spyOn(globalThis, "setImmediate");
    // oxlint-disable-next-line kit/no-sleep -- It counts what happens while nothing is due.
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setTimeout(resolve, 1));
    expect(turns.mock.calls.length).toBeLessThan(25);
    turns.mockRestore();
    answer([]);
  });

  it("hands the deadline of the youngest item to the call", async () => {
    const deadlines: number[] = [];
    const { batcher } = fixture({
      send: (items, deadline) => {
        deadlines.push(deadline.remainingMs);
        return Promise.resolve([...items]);
      },
    });
    await batcher.add("a");
    expect(deadlines[0]).toBeGreaterThan(50_000);
    expect(deadlines[0]).toBeLessThanOrEqual(60_000);
  });

  it("refuses what there is no room for", async () => {
    const { batcher, call, echo } = fixture({ maxPending: 1 });
    const first = batcher.add("a");
    await call(0);
    const second = batcher.add("b");
    await expect(batcher.add("c")).rejects.toThrow("no room for c");
    await echo(0);
    await echo(1);
    await Promise.all([first, second]);
  });

  it("waits `delayMs` for company, unless the batch is full or flushed", async () => {
    const { batcher, calls, echo } = fixture({ delayMs: 3_600_000, maxItems: 2 });
    const alone = batcher.add("a");
    await Promise.resolve();
    expect(calls).toHaveLength(0);
    const full = batcher.add("b");
    expect(await echo(0)).toEqual(["a", "b"]);
    await Promise.all([alone, full]);
    const last = batcher.add("c");
    const flushed = batcher.flush();
    expect(await echo(1)).toEqual(["c"]);
    await Promise.all([last, flushed]);
  });

  it("flushes what was added before, and does not wait for what comes after", async () => {
    const { batcher, call, echo } = fixture();
    const first = batcher.add("a");
    const flushed = batcher.flush();
    await call(0);
    const later = batcher.add("b");
    await echo(0);
    await Promise.all([first, flushed]);
    expect(batcher.pending).toBe(0);
    expect(await echo(1)).toEqual(["b"]);
    await later;
  });

  it("closes when all has settled, and rejects at the deadline what was never sent", async () => {
    const { batcher, call, echo } = fixture();
    const first = batcher.add("a");
    await call(0);
    const waiting = rejection(batcher.add("b"));
    const closing = batcher.close(Deadline.in(20));
    expect(await rejection(batcher.add("c"))).toBeInstanceOf(KitClosedError);
    await closing;
    expect(await waiting).toBeInstanceOf(KitClosedError);
    await echo(0);
    await expect(first).resolves.toBe("a!");
  });

  it("takes ten thousand items at once and keeps their order", async () => {
    const seen: number[] = [];
    const batcher = new Batcher<number, number>({
      send: (items) => {
        seen.push(...items);
        return Promise.resolve(items.map((item) => item * 2));
      },
      deadlineMs: 60_000,
      late: () => new Error("late"),
      full: () => new Error("full"),
      owner: "The fixture",
      maxItems: 500,
      maxBytes: 1e9,
      sizeOf: () => 1,
      maxPending: 100_000,
      delayMs: 0,
    });
    const all = Array.from({ length: 10_000 }, (_, index) => index);
    expect(await Promise.all(all.map((item) => batcher.add(item)))).toEqual(all.map((item) => item * 2));
    expect(seen).toEqual(all);
  });
});

describe("Flusher", () => {
  const flusherOf = (flush: () => Promise<void>, everyMs = 3_600_000) => {
    const errors: unknown[] = [];
    return { flusher: new Flusher({ flush, everyMs, onError: (error) => errors.push(error) }), errors };
  };

  it("flushes some time after the first change, once for all that came until then", async () => {
    let flushes = 0;
    const flushed = new Promise<void>((resolve) => {
      const { flusher } = flusherOf(() => {
        flushes++;
        resolve();
        return Promise.resolve();
      }, 5);
      for (let change = 0; change < 10; change++) flusher.changed();
    });
    // Its timer does not keep the process alive.
    const alive = setInterval(() => undefined, 1_000);
    await flushed;
    clearInterval(alive);
    expect(flushes).toBe(1);
  });

  it("has one flush under way, and one more for all who ask meanwhile", async () => {
    const ends: (() => void)[] = [];
    const { flusher } = flusherOf(() => new Promise((resolve) => ends.push(resolve)));
    const first = flusher.now();
    const [second, third] = [flusher.now(), flusher.now()];
    expect(ends).toHaveLength(1);
    expect(third).toBe(second);
    ends[0]!();
    await first;
    while (ends.length < 2) await Promise.resolve();
    ends[1]!();
    await Promise.all([second, third]);
    expect(ends).toHaveLength(2);
  });

  it("rejects the caller of a failed flush, and tries again by itself", async () => {
    let tries = 0;
    let succeed: () => void;
    const again = new Promise<void>((resolve) => (succeed = resolve));
    const { flusher } = flusherOf(() => {
      if (++tries === 1) return Promise.reject(new Error("down"));
      succeed();
      return Promise.resolve();
    }, 5);
    await expect(flusher.now()).rejects.toThrow("down");
    const alive = setInterval(() => undefined, 1_000);
    await again;
    clearInterval(alive);
    expect(tries).toBe(2);
  });

  it("flushes again when it is closed, and says whether all was written", async () => {
    let isDown = true;
    const { flusher, errors } = flusherOf(() => (isDown ? Promise.reject(new Error("down")) : Promise.resolve()));
    flusher.changed();
    expect(await flusher.close(Deadline.in(1_000))).toBe(false);
    expect(errors).toEqual([new Error("down")]);
    isDown = false;
    expect(await flusher.close(Deadline.in(1_000))).toBe(true);
    const stuck = flusherOf(() => new Promise(() => undefined)).flusher;
    expect(await stuck.close(Deadline.in(10))).toBe(false);
  });
});
