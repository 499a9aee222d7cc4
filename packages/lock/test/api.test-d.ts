// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { KitError, RedisLike } from "@kit/core";
import type { Cluster, Redis } from "ioredis";
import type {
  AcquireOptions,
  CloseOptions,
  createLock,
  Lease,
  LeaseOptions,
  LeaseSet,
  Lock,
  LockErrorCode,
  LockEvents,
  LockInspection,
  LockLostError,
  LockOptions,
  LockNotDurableError,
  LockQueueFullError,
  LockSelfDeadlockError,
  LockTimeoutError,
  LossReason,
  ReleaseOutcome,
  TryOptions,
} from "../src/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
type Option<T> = T | undefined;
/** Properties and methods, flattened, so that an interface and a literal can be compared. */
type Flat<T> = { [Key in keyof T]: T[Key] };

export type Pins = [
  Check<Same<typeof createLock, (redis: RedisLike, options?: LockOptions) => Lock>>,
  Check<Redis extends RedisLike ? true : false>,
  Check<Redis<"resp3"> extends RedisLike ? true : false>,
  Check<Cluster extends RedisLike ? true : false>,

  Check<Same<keyof LeaseOptions, "leaseMs" | "renew" | "maxHoldMs" | "holder">>,
  Check<
    Same<
      keyof LockOptions,
      | keyof LeaseOptions
      | "prefix"
      | "isolate"
      | "deadlineMs"
      | "maxWaiters"
      | "keepMs"
      | "durable"
      | "lockDelayMs"
      | "minHoldMs"
      | "reentrant"
    >
  >,
  Check<Same<keyof AcquireOptions, keyof LeaseOptions | "waitMs" | "signal">>,
  Check<Same<keyof TryOptions, keyof LeaseOptions | "signal">>,
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
      }
    >
  >,
  Check<Same<Flat<CloseOptions>, { readonly timeoutMs?: Option<number> }>>,

  Check<
    Same<
      Exclude<keyof Lock, "on" | "off" | "once">,
      | "using"
      | "acquire"
      | "tryAcquire"
      | "usingAll"
      | "acquireAll"
      | "tryAcquireAll"
      | "inspect"
      | "forceRelease"
      | "resume"
      | "close"
      | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<Lock["acquire"], (name: string, options?: AcquireOptions) => Promise<Lease>>>,
  Check<Same<Lock["tryAcquire"], (name: string, options?: TryOptions) => Promise<Lease | null>>>,
  Check<
    Same<
      Lock["using"],
      <T>(name: string, routine: (lease: Lease) => Promise<T> | T, options?: AcquireOptions) => Promise<T>
    >
  >,
  Check<Same<Lock["acquireAll"], (names: readonly string[], options?: AcquireOptions) => Promise<LeaseSet>>>,
  Check<Same<Lock["tryAcquireAll"], (names: readonly string[], options?: TryOptions) => Promise<LeaseSet | null>>>,
  Check<
    Same<
      Lock["usingAll"],
      <T>(names: readonly string[], routine: (set: LeaseSet) => Promise<T> | T, options?: AcquireOptions) => Promise<T>
    >
  >,
  Check<Same<Lock["inspect"], (name: string) => Promise<LockInspection>>>,
  Check<Same<Lock["forceRelease"], (name: string) => Promise<string | null>>>,
  Check<Same<Lock["resume"], (text: string) => Promise<Lease>>>,
  Check<Same<Lock["close"], (options?: CloseOptions) => Promise<void>>>,

  Check<Same<Lease["name" | "token" | "fencingToken" | "holder"], string>>,
  Check<Same<Lease["leaseMs" | "remainingMs"], number>>,
  Check<Same<Lease["isHeld"], boolean>>,
  Check<Same<Lease["signal"], AbortSignal>>,
  Check<Same<Lease["assertHeld"], () => void>>,
  Check<Same<Lease["extend"], (leaseMs?: number) => Promise<void>>>,
  Check<Same<Lease["release"], () => Promise<ReleaseOutcome>>>,
  Check<Same<Lease["stopRenewal"], () => void>>,
  Check<Same<Lease["handOver"], () => string>>,
  Check<Same<Lease["serialise"], () => string>>,
  Check<Lease extends AsyncDisposable ? true : false>,
  Check<Lock extends AsyncDisposable ? true : false>,

  Check<
    Same<
      keyof LeaseSet,
      | "names"
      | "fencingTokens"
      | "remainingMs"
      | "isHeld"
      | "signal"
      | "assertHeld"
      | "extend"
      | "release"
      | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<LeaseSet["names"], readonly string[]>>,
  Check<Same<LeaseSet["fencingTokens"], ReadonlyMap<string, string>>>,
  Check<Same<LeaseSet["extend"], (leaseMs?: number) => Promise<void>>>,
  Check<Same<LeaseSet["release"], () => Promise<ReleaseOutcome>>>,

  Check<Same<ReleaseOutcome, "released" | "not-held">>,
  Check<
    Same<LossReason, "expired" | "taken" | "deadline" | "max-hold" | "stopped" | "closed" | "released" | "handed-over">
  >,
  Check<
    Same<
      LockErrorCode,
      "KIT_LOCK_TIMEOUT" | "KIT_LOCK_LOST" | "KIT_LOCK_QUEUE_FULL" | "KIT_LOCK_NOT_DURABLE" | "KIT_LOCK_SELF_DEADLOCK"
    >
  >,
  Check<
    LockLostError | LockTimeoutError | LockQueueFullError | LockNotDurableError | LockSelfDeadlockError extends KitError
      ? true
      : false
  >,
  Check<Same<LockTimeoutError["holder"], string | undefined>>,
  Check<Same<LockTimeoutError["msLeft"], number | undefined>>,
  Check<Same<LockLostError["reason"], LossReason>>,

  Check<
    Same<
      keyof LockEvents,
      "acquired" | "waiting" | "stillWaiting" | "requeued" | "released" | "lost" | "evictable" | "error"
    >
  >,
  Check<Same<LockEvents["error"], readonly [error: KitError]>>,
  Check<
    Same<
      Flat<LockInspection>,
      {
        readonly state: "free" | "held";
        readonly holder: string | null;
        readonly fencingToken: string | null;
        readonly msLeft: number | null;
        readonly waiters: number;
        readonly queue: readonly { readonly holder: string }[];
      }
    >
  >,
];
