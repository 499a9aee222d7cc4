import { appendFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type CounterDelta, type CounterOrigin, type CounterSink, dailyCountry } from "../src/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

const visit = (address: string, day: number): string =>
  `${address} - - [${String(day).padStart(2, "0")}/Mar/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2326`;
const locator = {
  country: (address: string) => {
    if (address.startsWith("10.")) return undefined;
    const country = address.slice(0, 2);
    // BB answers by a promise that is not a native one.
    // oxlint-disable-next-line unicorn/no-thenable
    const foreign = { then: (done: (value: string) => unknown) => done(country) } as Promise<string>;
    return country === "BB" ? foreign : Promise.resolve(country);
  },
};

/** A sink that adds each number once, and records its calls. */
class Totals implements CounterSink {
  readonly totals = new Map<string, number>();
  readonly asked: (readonly [readonly CounterDelta[], CounterOrigin])[] = [];
  #last = 0;
  failure: Error | undefined;

  async apply(deltas: readonly CounterDelta[], origin: CounterOrigin): Promise<void> {
    this.asked.push([deltas, origin]);
    if (origin.seq > this.#last)
      for (const { field, by } of deltas) this.totals.set(field, (this.totals.get(field) ?? 0) + by);
    this.#last = origin.seq;
    await Promise.resolve();
    if (this.failure) throw this.failure;
  }
}

describe("counts by day and country", () => {
  it("adds over commits, and counts unknown addresses and unreadable lines as such", async () => {
    const directory = await fixture.directory();
    const lines = Array.from({ length: 600 }, (_, n) => visit(`${["10", "AA", "BB"][n % 3]!}.1`, (n % 2) + 1));
    await writeFile(join(directory, "a.log"), ["", "no address", ...lines, ""].join("\n"));
    const job = fixture.job({ directory, flushLines: 50 });
    await job.run(dailyCountry({ locator }));
    expect(Object.fromEntries(await job.results("country"))).toEqual({
      unreadable: "2",
      "2026-03-01 unknown": "100",
      "2026-03-02 unknown": "100",
      "2026-03-01 AA": "100",
      "2026-03-02 AA": "100",
      "2026-03-01 BB": "100",
      "2026-03-02 BB": "100",
    });
  });

  it("reads virtual hosts and ports, and no day or address that there is not", async () => {
    const directory = await fixture.directory();
    const at = (who: string, day: string): string => `${who} - - [${day}:13:55:36 +0000] "GET / HTTP/1.1" 200 2`;
    const lines = [
      ...["31/Feb/2026", "29/Feb/2026", "00/Mar/2026", "01/Foo/2026"].map((day) => at("192.0.2.1", day)),
      ...["-", "host:443 -"].map((who) => at(who, "01/Mar/2026")),
      ...["192.0.2.1", "192.0.2.1:50123", "host:443 192.0.2.1", "10.host.example:80 192.0.2.1:1"].map((who) =>
        at(who, "29/Feb/2024"),
      ),
      ...["2001:db8::1", "[2001:db8::1]:443", "host:443 2001:db8::1"].map((who) => at(who, "01/Mar/2026")),
      at("name.example", "01/Mar/0099"),
    ];
    await writeFile(join(directory, "a.log"), `${lines.join("\n")}\n`);
    const job = fixture.job({ directory });
    const asked: string[] = [];
    await job.run(dailyCountry({ locator: { country: (address) => void asked.push(address) } }));
    expect(Object.fromEntries(await job.results("country"))).toEqual({
      unreadable: "6",
      "2024-02-29 unknown": "4",
      "2026-03-01 unknown": "3",
      "0099-03-01 unknown": "1",
    });
    expect(new Set(asked)).toEqual(new Set(["192.0.2.1", "2001:db8::1", "name.example"]));
  });

  it("reads the first of several addresses, brackets, and a day that is not a part of the user's name", async () => {
    const directory = await fixture.directory();
    const end = '[01/Mar/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2 "-" "[02/Jan/2020:00:00:00 +0000]"';
    const lines = [
      ...[
        "192.0.2.1, 10.0.0.1",
        "192.0.2.1,10.0.0.1",
        "192.0.2.1:5, 10.0.0.1, 10.0.0.2",
        "host:443 192.0.2.1, 10.0.0.1",
      ],
      ...["[2001:db8::1]", "[2001:db8::1]:443", "[2001:db8::1], 10.0.0.1", "host:443 [2001:db8::1]"],
      ...["[03/Jan/2020:", "a [03/Jan/2020:00:00:00 +0000]", 'a [03/Jan/2020:00:00:00 +0000] \\"'].map(
        (user) => `192.0.2.1 - ${user}`,
      ),
    ].map((who) => `${who} - - ${end}`);
    lines.push("192.0.2.1 [01/Mar/2026:13:55:36 +0000] GET /[03/Jan/2020:", "192.0.2.1,", "");
    await writeFile(join(directory, "a.log"), `${lines.join("\n")}\n`);
    const job = fixture.job({ directory });
    const asked: string[] = [];
    await job.run(dailyCountry({ locator: { country: (address) => void asked.push(address) } }));
    expect(Object.fromEntries(await job.results("country"))).toEqual({ "2026-03-01 unknown": "12", unreadable: "2" });
    expect(new Set(asked)).toEqual(new Set(["192.0.2.1", "2001:db8::1"]));
  });

  it("takes another format, and refuses a wrong locator", async () => {
    const directory = await fixture.directory();
    await writeFile(join(directory, "a.log"), "x,AA1\n");
    const job = fixture.job({ directory });
    await job.run(
      dailyCountry({ locator, result: "own", parse: (line) => ({ day: "d", address: line.split(",")[1]! }) }),
    );
    expect(await job.results("own")).toEqual(new Map([["d AA", "1"]]));
    expect(() => dailyCountry({ locator: {} as never })).toThrow(TypeError);
  });
});

describe("results in a sink", () => {
  it("arrive there once, even if it fails after adding, and while lines keep arriving", async () => {
    const directory = await fixture.directory();
    const path = join(directory, "a.log");
    // More fields than one call moves.
    await writeFile(path, Array.from({ length: 1_200 }, (_, n) => `f${String(n)}\n`).join(""));
    const job = fixture.job({ directory });
    const count = (): Promise<unknown> =>
      job.run((lines, results) => lines.forEach((line) => results.increment("sum", line)));
    await count();
    const sink = new Totals();
    sink.failure = new Error("its reply was lost");
    expect(await rejection(job.forward("sum", sink))).toBe(sink.failure);
    sink.failure = undefined;
    await appendFile(path, "f1\nf2\n");
    await count();
    await job.forward("sum", sink);
    expect(sink.asked[1]).toEqual(sink.asked[0]);
    expect([sink.totals.size, [...sink.totals.values()].reduce((sum, by) => sum + by, 0)]).toEqual([1_200, 1_202]);
    expect([sink.totals.get("f1"), sink.totals.get("f2")]).toEqual([2, 2]);
    expect(await job.forward("sum", sink)).toBe(0);
    expect((await job.results("sum")).size).toBe(0);
    await job.delete();
    expect(await redis.keys()).toEqual([]);
  });

  it("arrive from a receiver as well, and stay in Redis when the call is aborted", async () => {
    await fixture.shipper().send("a", new Blob(["x\ny\nx\n"]).stream());
    const receiver = fixture.receiver();
    await receiver.run((lines, results) => lines.forEach((line) => results.increment("sum", line)), { until: "empty" });
    const sink = new Totals();
    const reason = new Error("enough");
    expect(await rejection(receiver.forward("sum", sink, { signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(await receiver.forward("sum", sink)).toBe(2);
    expect(sink.totals).toEqual(
      new Map([
        ["x", 2],
        ["y", 1],
      ]),
    );
  });

  it.each(["nan", "0", "-1", "1e300", "9007199254740993", undefined])(
    "are not given out when their number is %s",
    async (number) => {
      await fixture.shipper().send("a", new Blob(["x\ny\nx\n"]).stream());
      const receiver = fixture.receiver();
      await receiver.run((lines, results) => lines.forEach((line) => results.increment("sum", line)), {
        until: "empty",
      });
      const sink = new Totals();
      sink.failure = new Error("its reply was lost");
      expect(await rejection(receiver.forward("sum", sink))).toBe(sink.failure);
      sink.failure = undefined;
      const field = `sent ${receiver.resultKey("sum")}`;
      const sent = await fixture.db.hget(fixture.keys.channel, field);
      if (number === undefined) await fixture.db.hdel(fixture.keys.channel, field);
      else await fixture.db.hset(fixture.keys.channel, field, number);
      expect(await rejection(receiver.forward("sum", sink))).toMatchObject({ code: "KIT_LAYOUT" });
      await fixture.db.hset(fixture.keys.channel, field, sent!);
      expect(await receiver.forward("sum", sink)).toBe(2);
      expect(sink.totals.get("x")).toBe(2);
    },
  );
});
