import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLogJob, dailyCountry } from "@kit/logship";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

const files = 8;
const perFile = 500;
/** Before and after midnight in Berlin, in winter time and, a day later, in summer time. */
const instants = ["2026-03-28T22:59:59Z", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z", "2026-03-29T22:00:00Z"];
const addresses = ["1.0.0.1", "1.0.4.1", "10.0.0.1", "::ffff:1.0.4.9", "no address"];

const berlin = new Intl.DateTimeFormat("sv-SE", { timeZone: "Europe/Berlin" });
const days = {
  utc: (at: string): string => at.slice(0, 10),
  berlin: (at: string): string => berlin.format(new Date(at)),
};

it.each(["utc", "berlin"] as const)(
  "visits are counted by country and day (%s), once whoever reads them",
  async (zone) => {
    await fixture.import();
    const directory = await mkdtemp(join(tmpdir(), "visits-"));
    redis.defer(() => rm(directory, { recursive: true }));
    const wanted = new Map<string, number>();
    for (let file = 0; file < files; file++) {
      const lines = Array.from({ length: perFile }, (_, at) => {
        const [instant, address] = [instants[at % 4]!, addresses[(at + file) % 5]!];
        const country = ["XA", "XB", "unknown", "XB", "unknown"][(at + file) % 5]!;
        const field = `${days[zone](instant)} ${country}`;
        wanted.set(field, (wanted.get(field) ?? 0) + 1);
        return `${instant},${address}\n`;
      });
      await writeFile(join(directory, `${String(file)}.log`), lines.join(""));
    }
    const reader = fixture.reader();
    const locator = { country: async (address: string) => (await reader.lookup(address)).place?.country };
    const parse = (line: string): { day: string; address: string } => {
      const [at = "", address = ""] = line.split(",");
      return { day: days[zone](at), address };
    };
    const totals = async (): Promise<unknown> => {
      // Each worker of a connection of its own; a file that one was at is gone on with by the next.
      const jobs = Array.from({ length: 4 }, () =>
        createLogJob(fixture.connect(), zone, { directory, prefix: redis.prefix, flushLines: 20 }),
      );
      await Promise.all(jobs.map((job) => job.run(dailyCountry({ locator, parse }))));
      const found = await jobs[0]!.results("country");
      for (const job of jobs) await job.close();
      return Object.fromEntries([...found].map(([field, count]) => [field, Number(count)]));
    };
    expect(await totals()).toEqual(Object.fromEntries(wanted));
    // All files once more.
    expect(await totals()).toEqual(Object.fromEntries(wanted));
  },
);
