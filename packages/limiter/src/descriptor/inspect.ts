import type { Connection } from "@kit/core";
import { counted, type Facts, type Inspector, secondsText, stored } from "@kit/core/toolkit";
import { createLimiter, type Decision, type Limit, type Limits } from "../index.js";
import { limiterKeys } from "../keys.js";
import { limitRules, limitsOf, termsOf } from "../options.js";
import { check } from "../scripts/index.js";

/** A limiter, and one of its keys if that is given; what `kit inspect limiter NAME --json` prints. */
interface LimiterReport {
  readonly limiter: string;
  /** The limits of `setLimits()` by name. Null: each program's own limits apply. */
  readonly limits: Limits | null;
  readonly key?: string;
  /** What `check(key)` returns. Null: nothing of the key is in use. */
  readonly state?: Omit<Decision, "decidedBy"> | null;
}

/** @throws {KitError} `KIT_LAYOUT`: kit does not write limits such as those stored in this key. */
const storedLimits = (key: string, text: string): Limits => {
  const limits = limitsOf(termsOf(text));
  for (const limit of Object.values(limits)) stored(key, limit, limitRules);
  return limits;
};

/** The limits under which a key was used last, by number: its state has no names. `-` is a shared limit. */
const limitsIn = (key: string, own: string, all: string): Limits => {
  const [entries, shared] = [own, all].map((state) => state.split(" ").slice(3));
  const terms = (entries ?? []).map((entry, at) => {
    const isShared = entry === "-";
    const [kind, count, perMs, burst] = ((isShared ? shared?.[at] : entry) ?? "g,1,1,1").split(",");
    return [at + 1, kind, count, perMs, burst, isShared ? 1 : 0].join(",");
  });
  return storedLimits(key, terms.join(" "));
};

const read = async (
  redis: Connection,
  prefix: string,
  name: string,
  key: string | undefined,
): Promise<LimiterReport> => {
  const { limits, all, rate } = limiterKeys(prefix, name);
  const own = key === undefined ? all : rate(key);
  // A key that is damaged, or of another type, is a typed error.
  const { stored: text } = await check.run(redis, { limits, all, rate: own }, { settings: "1,g,1,1,1,0", tokens: 1 });
  const report = { limiter: name, limits: text === "" ? null : storedLimits(limits, text) };
  if (key === undefined) return report;
  const [state, allState] = await Promise.all([redis.call("GET", own), redis.call("GET", all)]);
  if (typeof state !== "string") return { ...report, key, state: null };
  const limiter = createLimiter(redis, name, {
    limits: limitsIn(own, state, typeof allState === "string" ? allState : ""),
    prefix,
  });
  try {
    const { decidedBy: _, ...decision } = await limiter.check(key);
    return { ...report, key, state: decision };
  } finally {
    await limiter.close();
  }
};

const limitText = ({ algorithm, count, perMs, burst, shared }: Limit): string => {
  const bucket = algorithm === "gcra" ? `, burst ${String(burst)}` : "";
  return `${String(count)} per ${secondsText(perMs)}, ${String(algorithm)}${bucket}${shared ? ", shared by all keys" : ""}`;
};

const keyFacts = ({ key, state }: LimiterReport): Facts => {
  if (key === undefined) return [];
  if (!state)
    return [
      ["key", key],
      ["tokens", "all: nothing is in use"],
    ];
  const { allowed, remaining, resetMs, retryAfterMs, refusedBy } = state;
  const by = refusedBy === "block" ? "blocked" : `refused by limit ${String(refusedBy)}`;
  return [
    ["key", key],
    ["tokens", allowed ? `${counted(remaining, "token")} left` : `${by}, for ${secondsText(retryAfterMs)}`],
    ["reset", `nothing is in use in ${secondsText(resetMs)}`],
  ];
};

const limitFacts = (limits: Limits | null): Facts =>
  limits === null
    ? [["limits", "each program's own"]]
    : Object.entries(limits).map(([name, limit]) => ["limits", `${name}: ${limitText(limit)}`] as const);

export const limiterInspector: Inspector = {
  thing: "limiter",
  about: "a limiter: limits that were set at run time, and one key",
  options: [{ name: "key", takes: "text", about: "show one key, as in consume(key)" }],
  look: async ({ redis, prefix, text }, name: string) => {
    const data = await read(redis, prefix, name, text("key"));
    const limits = limitFacts(data.limits);
    const summary = `limits: ${limits.map(([, limit]) => limit).join("; ")}`;
    return {
      data,
      facts: [["limiter", name], ...limits, ...keyFacts(data)],
      summary,
      isUnknown: data.state === null,
    };
  },
  cost: 2,
  listed: { things: "limiters", keys: ["{NAME}:key:*", "{NAME}:all", "{NAME}:limits"], columns: ["limits"] },
  keys: (prefix, name: string) => {
    const { limits, all } = limiterKeys(prefix, name);
    return [limits, all];
  },
};
