// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { KitError, RedisLike } from "@kit/core";
import type { MetricSample, MetricSource } from "@kit/limiter";
import type { Cluster, Redis } from "ioredis";
import type {
  CloseOptions,
  ConsumeOptions,
  createLimiter,
  Decision,
  Limit,
  Limiter,
  LimiterBusyError,
  LimiterErrorCode,
  LimiterEvents,
  LimiterOptions,
  Limits,
  LimiterTimeoutError,
  LimiterTokensError,
  LimiterWaitError,
  WaitOptions,
} from "../src/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
type Option<T> = T | undefined;
/** Properties and methods, flattened, so that an interface and a literal can be compared. */
type Flat<T> = { [Key in keyof T]: T[Key] };

export type Pins = [
  Check<Same<typeof createLimiter, (redis: RedisLike, name: string, options: LimiterOptions) => Limiter>>,
  Check<Redis | Redis<"resp3"> | Cluster extends RedisLike ? true : false>,

  Check<
    Same<
      Flat<Limit>,
      {
        readonly count: number;
        readonly perMs: number;
        readonly burst?: Option<number>;
        readonly algorithm?: Option<"gcra" | "sliding-window" | "fixed-window">;
        readonly shared?: Option<boolean>;
      }
    >
  >,
  Check<Same<Limits, Readonly<Record<string, Limit>>>>,
  Check<
    Same<
      Flat<LimiterOptions>,
      {
        readonly prefix?: Option<string>;
        readonly isolate?: Option<boolean>;
        readonly deadlineMs?: Option<number>;
        readonly limits: Limits;
        readonly onUnavailable?: Option<"refuse" | "allow" | "local">;
        readonly processes?: Option<number>;
        readonly rememberMs?: Option<number>;
      }
    >
  >,
  Check<Same<Flat<ConsumeOptions>, { readonly tokens?: Option<number> }>>,
  Check<
    Same<
      Flat<WaitOptions>,
      { readonly tokens?: Option<number>; readonly waitMs?: Option<number>; readonly signal?: Option<AbortSignal> }
    >
  >,
  Check<Same<Flat<CloseOptions>, { readonly timeoutMs?: Option<number> }>>,

  Check<
    Same<
      Exclude<keyof Limiter, "on" | "off" | "once">,
      | "name"
      | "consume"
      | "check"
      | "wait"
      | "penalize"
      | "reward"
      | "block"
      | "reset"
      | "setLimits"
      | "metrics"
      | "close"
      | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<Limiter["consume"], (key: string, options?: ConsumeOptions) => Promise<Decision>>>,
  Check<Same<Limiter["check"], (key: string, options?: ConsumeOptions) => Promise<Decision>>>,
  Check<Same<Limiter["wait"], (key: string, options?: WaitOptions) => Promise<void>>>,
  Check<Same<Limiter["penalize"], (key: string, tokens?: number) => Promise<Decision>>>,
  Check<Same<Limiter["reward"], (key: string, tokens?: number) => Promise<Decision>>>,
  Check<Same<Limiter["block"], (key: string, blockMs: number) => Promise<void>>>,
  Check<Same<Limiter["reset"], (key: string) => Promise<void>>>,
  Check<Same<Limiter["setLimits"], (limits: Limits | null) => Promise<void>>>,
  Check<Same<Limiter["close"], (options?: CloseOptions) => Promise<void>>>,
  Check<Same<Limiter["metrics"], () => MetricSample[]>>,
  Check<Limiter extends AsyncDisposable & MetricSource ? true : false>,

  Check<
    Same<
      Flat<Decision>,
      {
        readonly allowed: boolean;
        readonly remaining: number;
        readonly resetMs: number;
        readonly retryAfterMs: number;
        readonly refusedBy: string | null;
        readonly decidedBy: "server" | "memory" | "outage";
      }
    >
  >,
  Check<Same<LimiterErrorCode, "KIT_LIMITER_TIMEOUT" | "KIT_LIMITER_TOKENS" | "KIT_LIMITER_WAIT" | "KIT_LIMITER_BUSY">>,
  Check<LimiterTimeoutError | LimiterTokensError | LimiterWaitError | LimiterBusyError extends KitError ? true : false>,
  Check<Same<LimiterTimeoutError["retryAfterMs"], number>>,
  Check<Same<LimiterTimeoutError["refusedBy"], string | null>>,
  Check<Same<LimiterTokensError["tokens"], number>>,
  Check<Same<keyof LimiterEvents, "evictable" | "error">>,
  Check<Same<LimiterEvents["error"], readonly [error: KitError]>>,
];
