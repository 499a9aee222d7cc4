import { connect } from "@kit/core";
import { createLimiter } from "@kit/limiter";
import { Lab, prefix } from "../../lab/lab.js";
import type { LimitFacts, LogRecord, RunHistory } from "./history.js";

const limits: readonly LimitFacts[] = [
  { limiter: "even", limit: { count: 40, perMs: 1_000, burst: 10 }, most: 50 },
  { limiter: "exact", limit: { count: 30, perMs: 1_000, algorithm: "sliding-window" }, most: 30 },
  { limiter: "window", limit: { count: 30, perMs: 1_000, algorithm: "fixed-window" }, most: 60 },
  { limiter: "total", limit: { count: 30, perMs: 500, algorithm: "sliding-window", shared: true }, most: 30 },
];

/** A limit that nobody reaches counts each call. */
const exactCount = { count: 1_000_000_000, perMs: 31_536_000_000, algorithm: "fixed-window" } as const;
const waitLimit = { count: 100, perMs: 1_000, burst: 1 };

/** A server, the workers that use up limits on it, and the injections. */
export class LimiterLab extends Lab<LogRecord> {
  protected override settings(): object {
    return { limits, exactCount, waitLimit, waitMs: 400, restMs: 10 };
  }

  async end(): Promise<RunHistory> {
    const facts = await this.facts();
    await using client = await connect({ url: this.ownUrl, deadlineMs: 10_000 });
    await using ledger = createLimiter(client, "ledger", { prefix, deadlineMs: 10_000, limits: { exactCount } });
    const { remaining } = await ledger.check("all");
    return {
      ...facts,
      limits,
      waitRate: waitLimit.count / waitLimit.perMs,
      counted: exactCount.count - remaining,
      leftovers: [...(await this.lives())].flatMap(([key, ms]) => (ms === -1 ? [`${key} stays for ever`] : [])),
    };
  }
}
