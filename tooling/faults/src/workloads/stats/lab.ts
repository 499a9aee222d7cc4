import { connect } from "@kit/core";
import { createStats, type Summary } from "@kit/stats";
import { clock } from "@tooling/lab";
import { Lab, prefix } from "../../lab/lab.js";
import type { Found, LogRecord, Quantiles, RunHistory } from "./history.js";

const hourMs = 3_600_000;
const precisions = [
  { stepMs: 1_000, keepMs: hourMs },
  { stepMs: 10_000, keepMs: hourMs },
];
const logName = "orders";
const deliveries = ["effectively-once", "at-least-once", "at-most-once"] as const;

/** A series that all workers write. */
interface Series {
  readonly name: string;
  readonly metric: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly kind: "counter" | "distribution" | "log";
  readonly delivery: Found["delivery"];
}

const some = (kind: Series["kind"], metric: string, delivery: Series["delivery"], count: number): Series[] =>
  Array.from({ length: count }, (_, index) => {
    const k = String(index);
    return { name: `${metric};k=${k}`, metric, labels: { k }, kind, delivery };
  });

const series: readonly Series[] = [
  ...deliveries.flatMap((delivery) => some("counter", `${delivery.replaceAll("-", "_")}_total`, delivery, 4)),
  ...some("distribution", "once_ms", "effectively-once", 2),
  { name: logName, metric: logName, labels: {}, kind: "log", delivery: "effectively-once" },
];

const sumOf = (values: Iterable<number>): number => [...values].reduce((sum, value) => sum + value, 0);

const shares = [0.01, 0.25, 0.5, 0.9, 0.99, 0.999];
const quantilesOf = (of: string, summary: Summary): Quantiles => ({
  of,
  count: summary.count,
  values: Object.fromEntries(shares.map((share) => [share, summary.quantile(share)])),
});

/** A server, the workers that count on it, and the injections. */
export class StatsLab extends Lab<LogRecord> {
  override readonly deadlineMs = 500;

  protected override settings(): object {
    return { series, precisions, flushDueMs: this.deadlineMs, closeMs: 8_000, restMs: 20 };
  }

  async end(): Promise<RunHistory> {
    return {
      ...(await this.facts()),
      isWhole: this.setting !== "lost" && this.setting !== "shifted",
      found: await this.#found(),
      copied: this.#copied(),
      leftovers: await this.#leftovers(),
    };
  }

  /** Reads the numbers with the package itself, over a direct connection to the server. */
  async #found(): Promise<Found[]> {
    await using client = await connect({ url: this.ownUrl, deadlineMs: 10_000 });
    await using stats = createStats(client, { prefix, deadlineMs: 10_000 });
    // Further ahead than any worker's clock.
    const range = { fromAt: clock() - hourMs / 2, toAt: clock() + 30_000 };
    const found: Found[] = [];
    for (const { name, metric, labels, kind, delivery } of series) {
      const labelNames = Object.keys(labels);
      if (kind === "counter") {
        const one = stats.counter(metric, { labelNames, precisions }).series(labels);
        const read = async (stepMs: number): Promise<number> =>
          sumOf((await one.read({ ...range, stepMs })).map(({ value }) => value));
        const parts = { "buckets of 1 s": await read(1_000), "buckets of 10 s": await read(10_000) };
        found.push({ series: name, delivery, total: await one.total(), parts });
      } else if (kind === "distribution") {
        const one = stats.distribution(metric, { labelNames }).series(labels);
        const all = await one.total();
        const inWindows = await one.summary({ ...range, stepMs: 60_000 });
        const hash = (await client.call("HGETALL", `${prefix}:stats:{${name}}:dist`)) as readonly unknown[];
        const fields = hash.map(String);
        const bins = fields.filter((_, at) => at % 2 === 1 && /^(?:[pn]-?\d+|z)$/.test(fields[at - 1] ?? ""));
        const parts = { windows: inWindows.count, bins: sumOf(bins.map(Number)) };
        const quantiles = [quantilesOf("all", all), quantilesOf("windows", inWindows)];
        found.push({ series: name, delivery, total: all.count, sum: all.sum, quantiles, parts });
      } else {
        const messages = await stats.messages(metric).frequent({
          fromAt: clock() - 3 * hourMs,
          toAt: clock() + 2 * hourMs,
        });
        const total = sumOf(messages.map(({ count }) => count));
        found.push({ series: name, delivery, total, parts: { exact: total - sumOf(messages.map((m) => m.error)) } });
      }
    }
    return found;
  }

  /** The amounts that the tap's copies added by calls without a ledger, whose plan begins with 0. */
  #copied(): Record<string, number> {
    const copied: Record<string, number> = {};
    for (const { command, reply } of this.around.tap?.echoes ?? []) {
      const keys = command.slice(3, 3 + Number(command[2]));
      const plan = command.slice(3 + keys.length);
      if (plan[0] !== "0" || !Array.isArray(reply)) continue;
      // Each batch: its keys, number of arguments that follow its head, validUntil, seq; then the amount. The first key of a batch is its total.
      let at = 1;
      for (const key of keys.filter((one) => one.endsWith(":total"))) {
        const name = /\{(.*)\}/.exec(key)?.[1] ?? "";
        copied[name] = (copied[name] ?? 0) + Number(plan[at + 4]);
        at += 4 + Number(plan[at + 1]);
      }
    }
    return copied;
  }

  async #leftovers(): Promise<string[]> {
    const lives = await this.lives();
    const found = [...lives].flatMap(([key, ms]) => (ms === -1 ? [`${key} stays for ever`] : []));
    return lives.size > 5_000 ? [...found, `${String(lives.size)} keys are left`] : found;
  }
}
