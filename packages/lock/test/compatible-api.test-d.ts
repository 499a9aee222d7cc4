// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { RedisLike } from "@kit/core";
import type {
  CloseOptions,
  CompatibleAcquireOptions,
  CompatibleLease,
  CompatibleLock,
  CompatibleLockEvents,
  CompatibleLockOptions,
  CompatibleTryOptions,
  createCompatibleLock,
  LossReason,
  ReleaseOutcome,
} from "../src/compatible/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
type Flat<T> = { [Key in keyof T]: T[Key] };

export type Pins = [
  Check<Same<typeof createCompatibleLock, (redis: RedisLike, options?: CompatibleLockOptions) => CompatibleLock>>,
  Check<
    Same<
      Exclude<keyof CompatibleLock, "on" | "off" | "once">,
      "acquire" | "tryAcquire" | "using" | "resume" | "close" | typeof Symbol.asyncDispose
    >
  >,
  Check<
    Same<
      keyof CompatibleLockOptions,
      "leaseMs" | "renew" | "maxHoldMs" | "prefix" | "isolate" | "deadlineMs" | "keyPrefix"
    >
  >,
  Check<Same<keyof CompatibleAcquireOptions, "leaseMs" | "renew" | "maxHoldMs" | "waitMs" | "signal">>,
  Check<Same<keyof CompatibleTryOptions, "leaseMs" | "renew" | "maxHoldMs" | "signal">>,
  Check<
    Same<CompatibleLock["acquire"], (name: string, options?: CompatibleAcquireOptions) => Promise<CompatibleLease>>
  >,
  Check<
    Same<
      CompatibleLock["tryAcquire"],
      (name: string, options?: CompatibleTryOptions) => Promise<CompatibleLease | null>
    >
  >,
  Check<
    Same<
      CompatibleLock["using"],
      <T>(
        name: string,
        routine: (lease: CompatibleLease) => Promise<T> | T,
        options?: CompatibleAcquireOptions,
      ) => Promise<T>
    >
  >,
  Check<Same<CompatibleLock["resume"], (text: string) => Promise<CompatibleLease>>>,
  Check<Same<CompatibleLock["close"], (options?: CloseOptions) => Promise<void>>>,
  Check<Same<CompatibleLease["release"], () => Promise<ReleaseOutcome>>>,
  Check<Same<"fencingToken" extends keyof CompatibleLease ? true : false, false>>,
  Check<CompatibleLease extends AsyncDisposable ? true : false>,
  Check<CompatibleLock extends AsyncDisposable ? true : false>,
  Check<
    Same<
      keyof CompatibleLockEvents,
      "acquired" | "waiting" | "stillWaiting" | "released" | "lost" | "evictable" | "error"
    >
  >,
  Check<Same<Flat<CompatibleLockEvents["acquired"][0]>, { name: string; waitedMs: number }>>,
  Check<Same<Flat<CompatibleLockEvents["lost"][0]>, { name: string; reason: LossReason }>>,
];
