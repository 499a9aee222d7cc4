// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { KitError, RedisLike } from "@kit/core";
import type { Cluster, Redis } from "ioredis";
import type {
  AcquireOptions,
  CloseOptions,
  createSemaphore,
  HolderOrWaiter,
  InspectOptions,
  LeaseOptions,
  Limits,
  LossReason,
  NewLimits,
  Permit,
  PermitLostError,
  ReleaseOutcome,
  Semaphore,
  SemaphoreErrorCode,
  SemaphoreEvents,
  SemaphoreInspection,
  SemaphoreOptions,
  SemaphoreQueueFullError,
  SemaphoreTimeoutError,
  SemaphoreWeightError,
  TryOptions,
} from "../src/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
type Option<T> = T | undefined;
/** Properties and methods, flattened, so that an interface and a literal can be compared. */
type Flat<T> = { [Key in keyof T]: T[Key] };

export type Pins = [
  Check<Same<typeof createSemaphore, (redis: RedisLike, name: string, options: SemaphoreOptions) => Semaphore>>,
  Check<Redis | Redis<"resp3"> | Cluster extends RedisLike ? true : false>,

  Check<Same<keyof LeaseOptions, "leaseMs" | "renew" | "maxHoldMs" | "holder">>,
  Check<
    Same<
      keyof SemaphoreOptions,
      keyof LeaseOptions | "permits" | "permitsPerTenant" | "prefix" | "isolate" | "deadlineMs" | "maxWaiters"
    >
  >,
  Check<Same<SemaphoreOptions["permits"], number>>,
  Check<Same<SemaphoreOptions["permitsPerTenant"], Option<number>>>,
  Check<
    Same<
      Flat<AcquireOptions>,
      {
        readonly leaseMs?: Option<number>;
        readonly renew?: Option<boolean>;
        readonly maxHoldMs?: Option<number>;
        readonly holder?: Option<string>;
        readonly waitMs?: Option<number>;
        readonly signal?: Option<AbortSignal>;
        readonly weight?: Option<number>;
        readonly tenant?: Option<string>;
        readonly priority?: Option<number>;
      }
    >
  >,
  Check<Same<keyof TryOptions, keyof LeaseOptions | "weight" | "tenant" | "signal">>,
  Check<
    Same<Flat<NewLimits>, { readonly permits?: Option<number>; readonly permitsPerTenant?: Option<number | null> }>
  >,
  Check<Same<Flat<InspectOptions>, { readonly tenant?: Option<string> }>>,
  Check<Same<Flat<CloseOptions>, { readonly timeoutMs?: Option<number> }>>,

  Check<
    Same<
      Exclude<keyof Semaphore, "on" | "off" | "once">,
      | "name"
      | "using"
      | "acquire"
      | "tryAcquire"
      | "setPermits"
      | "inspect"
      | "resume"
      | "close"
      | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<Semaphore["acquire"], (options?: AcquireOptions) => Promise<Permit>>>,
  Check<Same<Semaphore["tryAcquire"], (options?: TryOptions) => Promise<Permit | null>>>,
  Check<
    Same<Semaphore["using"], <T>(routine: (permit: Permit) => Promise<T> | T, options?: AcquireOptions) => Promise<T>>
  >,
  Check<Same<Semaphore["setPermits"], (limits: number | NewLimits) => Promise<void>>>,
  Check<Same<Semaphore["inspect"], (options?: InspectOptions) => Promise<SemaphoreInspection>>>,
  Check<Same<Semaphore["resume"], (text: string) => Promise<Permit>>>,
  Check<Same<Semaphore["close"], (options?: CloseOptions) => Promise<void>>>,

  Check<Same<Permit["name" | "token" | "holder"], string>>,
  Check<Same<Permit["tenant"], string | null>>,
  Check<Same<Permit["weight" | "leaseMs" | "remainingMs"], number>>,
  Check<Same<Permit["isHeld"], boolean>>,
  Check<Same<Permit["signal"], AbortSignal>>,
  Check<Same<Permit["assertHeld"], () => void>>,
  Check<Same<Permit["stopRenewal"], () => void>>,
  Check<Same<Permit["extend"], (leaseMs?: number) => Promise<void>>>,
  Check<Same<Permit["release"], () => Promise<ReleaseOutcome>>>,
  Check<Same<Permit["handOver"], () => string>>,
  Check<Same<Permit["serialise"], () => string>>,
  Check<Permit | Semaphore extends AsyncDisposable ? true : false>,

  Check<Same<ReleaseOutcome, "released" | "not-held">>,
  Check<
    Same<LossReason, "expired" | "taken" | "deadline" | "max-hold" | "stopped" | "closed" | "released" | "handed-over">
  >,
  Check<
    Same<
      SemaphoreErrorCode,
      "KIT_SEMAPHORE_TIMEOUT" | "KIT_SEMAPHORE_QUEUE_FULL" | "KIT_SEMAPHORE_WEIGHT" | "KIT_PERMIT_LOST"
    >
  >,
  Check<
    PermitLostError | SemaphoreTimeoutError | SemaphoreQueueFullError | SemaphoreWeightError extends KitError
      ? true
      : false
  >,
  Check<Same<SemaphoreTimeoutError["permits" | "permitsPerTenant" | "used" | "msLeft"], number | undefined>>,
  Check<Same<SemaphoreTimeoutError["tenant"], string | undefined>>,
  Check<Same<SemaphoreWeightError["weight" | "most"], number>>,
  Check<Same<PermitLostError["reason"], LossReason>>,

  Check<
    Same<
      keyof SemaphoreEvents,
      "acquired" | "waiting" | "stillWaiting" | "requeued" | "released" | "lost" | "mismatch" | "evictable" | "error"
    >
  >,
  Check<Same<SemaphoreEvents["mismatch"], readonly [event: { configured: Limits; stored: Limits }]>>,
  Check<Same<SemaphoreEvents["error"], readonly [error: KitError]>>,
  Check<
    Same<Flat<HolderOrWaiter>, { readonly holder: string; readonly weight: number; readonly tenant: string | null }>
  >,
  Check<
    Same<
      Flat<SemaphoreInspection>,
      {
        readonly permits: number;
        readonly permitsPerTenant: number | null;
        readonly used: number;
        readonly free: number;
        readonly holders: readonly (HolderOrWaiter & { readonly msLeft: number })[];
        readonly waiters: number;
        readonly queue: readonly HolderOrWaiter[];
      }
    >
  >,
];
