import {
  choice,
  type ClientOptions,
  clientRules,
  boolean,
  custom,
  decodedName,
  integer,
  matching,
  required,
  resolve,
  type Resolved,
  type RulesOf,
  signal,
  text,
} from "@kit/core/toolkit";

/** The most tokens of a call or a limit. */
export const most = 1_000_000_000;
const mostLimits = 8;
export const yearMs = 31_536_000_000;

/** One limit: the number of tokens that can be used in a period. A call uses one token, unless you pass `tokens`. */
export interface Limit {
  /** The number of tokens per `perMs`: 1 to 1,000,000,000. */
  readonly count: number;
  /** The period in milliseconds: 1 to 31,536,000,000 (a year). */
  readonly perMs: number;
  /**
   * How many tokens can be used together after a pause: 1 to 1,000,000,000. Only for `"gcra"`.
   *
   * @default `count`
   */
  readonly burst?: number | undefined;
  /**
   * `"gcra"` refills tokens evenly, `count` per `perMs`, up to `burst`. In any `perMs`, up to `burst` + `count` tokens are used.
   * `"sliding-window"` allows up to `count` tokens in any `perMs`. A call counts for up to 1.1 × `perMs`. `"fixed-window"` allows up to
   * `count` tokens in a window, which starts with its first call. Around the end of a window, up to 2 × `count` tokens can be used in
   * `perMs`.
   *
   * @default "gcra"
   */
  readonly algorithm?: "gcra" | "sliding-window" | "fixed-window" | undefined;
  /**
   * Whether all keys of the limiter share this limit. Otherwise each key has its own.
   *
   * @default false
   */
  readonly shared?: boolean | undefined;
}

/** Limits by name. All of them apply: a call uses its tokens in all limits, or in none. */
export type Limits = Readonly<Record<string, Limit>>;

const algorithms = ["gcra", "sliding-window", "fixed-window"] as const;
/** The rules of one limit. */
export const limitRules = {
  count: required(integer(1, most)),
  perMs: required(integer(1, yearMs)),
  burst: integer(1, most),
  algorithm: choice(algorithms, "gcra"),
  shared: boolean(false),
} satisfies RulesOf<Limit>;
const limitName = matching(text(64), /^\P{Surrogate}+$/u, "to be well-formed Unicode");

/** Limits as the scripts receive them, and one by one. */
export interface LimitTerms {
  /** `name,kind,count,perMs,burst,shared …`. The kind is the first letter of the algorithm. */
  readonly text: string;
  readonly list: readonly LimitTerm[];
}

/** One limit, with its defaults. */
export interface LimitTerm {
  readonly name: string;
  readonly kind: string;
  readonly count: number;
  readonly perMs: number;
  readonly burst: number;
  readonly isShared: boolean;
}

/** Reads limits that a script has stored. */
export const termsOf = (stored: string): LimitTerms => ({
  text: stored,
  list: stored.split(" ").map((one) => {
    const [name = "", kind = "", count, perMs, burst, shared] = one.split(",");
    const numbers = { count: Number(count), perMs: Number(perMs), burst: Number(burst) };
    return { name: decodedName(name), kind, ...numbers, isShared: shared === "1" };
  }),
});

/** Limits as `setLimits()` receives them. */
export const limitsOf = ({ list }: LimitTerms): Readonly<Record<string, Required<Limit>>> =>
  Object.fromEntries(
    list.map(({ name, kind, count, perMs, burst, isShared }) => {
      const algorithm = algorithms.find((one) => one.startsWith(kind)) ?? "gcra";
      return [name, { count, perMs, burst: algorithm === "gcra" ? burst : undefined, algorithm, shared: isShared }];
    }),
  );

const limitText = (path: string, limit: Limit): string => {
  const { count, perMs, burst, algorithm, shared } = resolve(path, limit, limitRules, undefined, `${path}.`);
  if (burst !== undefined && algorithm !== "gcra")
    throw new TypeError(`Expected no \`${path}.burst\`. Only the algorithm "gcra" has one`);
  return [algorithm[0], count, perMs, burst ?? count, shared ? 1 : 0].join(",");
};

/** @throws {TypeError | RangeError} a limit is invalid, or there are none, or too many. */
export const checkedLimits = (option: string, limits: Limits): LimitTerms => {
  // An array or text would have numbers as its names.
  if (typeof limits !== "object" || (limits as unknown) === null || Array.isArray(limits))
    throw new TypeError(`Expected \`${option}\` to be an object of limits by name`);
  const entries = Object.entries(limits);
  if (entries.length === 0 || entries.length > mostLimits)
    throw new RangeError(
      `Expected \`${option}\` to have 1 to ${String(mostLimits)} limits, got ${String(entries.length)}`,
    );
  const terms = entries.map(([name, limit]) => {
    const path = `${option}.${limitName.check(option, name)}`;
    // The error of `resolve` would show a text, which may be a secret that was passed by mistake.
    if (typeof limit !== "object") throw new TypeError(`Expected \`${path}\` to be an object`);
    return `${encodeURIComponent(name)},${limitText(path, limit)}`;
  });
  return termsOf(terms.join(" "));
};

/** Settings of a limiter. */
export interface LimiterOptions extends ClientOptions {
  /** The limits, by name: 1 to 8. `setLimits()` replaces them for all processes. */
  readonly limits: Limits;
  /**
   * What `consume()`, `check()` and `wait()` do when no server answers within `deadlineMs`.
   *
   * - `"refuse"`: reject, with KitUnavailableError or KitUnknownOutcomeError.
   * - `"allow"`: resolve with `allowed: true`.
   * - `"local"`: this process enforces its share of the limits until the server answers again. Needs `processes`.
   *
   * With `"allow"` and `"local"`, one call per second tries the server during an outage. All others decide immediately.
   *
   * @default "refuse"
   */
  readonly onUnavailable?: "refuse" | "allow" | "local" | undefined;
  /**
   * How many processes use the limiter, for `onUnavailable: "local"`: 1 to 1,000,000. Each process gets the limit divided by this number,
   * and a burst of at least one call.
   */
  readonly processes?: number | undefined;
  /**
   * How long this process remembers that a key was refused, in milliseconds: 0 to 86,400,000 (a day). kit forgets it sooner if the key can
   * be free sooner. Until then `consume()` refuses the key without a command. A `reset()`, `reward()` or `setLimits()` of another process
   * takes effect here after this time. With 0, each call asks the server.
   *
   * @default 1000
   */
  readonly rememberMs?: number | undefined;
}

export const limiterRules = {
  ...clientRules,
  limits: required(custom(checkedLimits)),
  onUnavailable: choice(["refuse", "allow", "local"], "refuse"),
  processes: integer(1, 1_000_000),
  rememberMs: integer(0, 86_400_000, 1_000),
} satisfies RulesOf<LimiterOptions>;

export type LimiterSettings = Resolved<typeof limiterRules>;

/** Options of `consume()` and `check()`. */
export interface ConsumeOptions {
  /**
   * How many tokens the call uses: 1 to 1,000,000,000.
   *
   * @default 1
   */
  readonly tokens?: number | undefined;
}

export const consumeRules = { tokens: integer(1, most, 1) } satisfies RulesOf<ConsumeOptions>;

/** Options of `wait()`. */
export interface WaitOptions extends ConsumeOptions {
  /**
   * The maximum time to wait, in milliseconds: 0 to 2,147,483,647 (24 days). If the wait would be longer, the call rejects immediately and
   * uses nothing.
   *
   * @default 2147483647
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait, with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/** The longest time that a timer can wait. */
export const longestMs = 2_147_483_647;

export const waitRules = {
  ...consumeRules,
  waitMs: integer(0, longestMs, longestMs),
  signal,
} satisfies RulesOf<WaitOptions>;
