// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { RedisLike } from "@kit/core";
import type {
  AcquireOptions,
  CloseOptions,
  createReadWriteLock,
  LeaseOptions,
  LockMode,
  ReadWriteLockOptions,
  LossReason,
  ReadWriteInspection,
  ReadWriteLease,
  ReadWriteLock,
  ReadWriteLockEvents,
  ReleaseOutcome,
  TryOptions,
  WriteLease,
} from "../src/read-write/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
/** Properties and methods, flattened, so that an interface and a literal can be compared. */
type Flat<T> = { [Key in keyof T]: T[Key] };
type Mode = "read" | "write";

export type Pins = [
  Check<Same<typeof createReadWriteLock, (redis: RedisLike, options?: ReadWriteLockOptions) => ReadWriteLock>>,
  Check<
    Same<
      Exclude<keyof ReadWriteLock, "on" | "off" | "once">,
      "read" | "write" | "inspect" | "resume" | "close" | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<ReadWriteLock["read"], LockMode<ReadWriteLease>>>,
  Check<Same<ReadWriteLock["write"], LockMode<WriteLease>>>,
  Check<Same<keyof LockMode<ReadWriteLease>, "acquire" | "tryAcquire" | "using">>,
  Check<Same<LockMode<WriteLease>["acquire"], (name: string, options?: AcquireOptions) => Promise<WriteLease>>>,
  Check<Same<LockMode<WriteLease>["tryAcquire"], (name: string, options?: TryOptions) => Promise<WriteLease | null>>>,
  Check<
    Same<
      LockMode<WriteLease>["using"],
      <T>(name: string, routine: (lease: WriteLease) => Promise<T> | T, options?: AcquireOptions) => Promise<T>
    >
  >,
  Check<Same<keyof AcquireOptions, keyof LeaseOptions | "waitMs" | "signal">>,
  Check<Same<ReadWriteLock["inspect"], (name: string) => Promise<ReadWriteInspection>>>,
  Check<Same<ReadWriteLock["resume"], (text: string) => Promise<ReadWriteLease>>>,
  Check<Same<ReadWriteLock["close"], (options?: CloseOptions) => Promise<void>>>,

  Check<Same<ReadWriteLease["mode"], Mode>>,
  Check<Same<ReadWriteLease["fencingToken"], string | null>>,
  Check<Same<WriteLease["fencingToken"], string>>,
  Check<Same<ReadWriteLease["downgrade"], () => Promise<void>>>,
  Check<Same<ReadWriteLease["tryUpgrade"], () => Promise<boolean>>>,
  Check<Same<ReadWriteLease["release"], () => Promise<ReleaseOutcome>>>,
  Check<ReadWriteLease extends AsyncDisposable ? true : false>,
  Check<ReadWriteLock extends AsyncDisposable ? true : false>,

  Check<
    Same<
      keyof ReadWriteLockEvents,
      "acquired" | "waiting" | "stillWaiting" | "requeued" | "released" | "lost" | "evictable" | "error"
    >
  >,
  Check<
    Same<
      Flat<ReadWriteLockEvents["lost"][0]>,
      { name: string; mode: Mode; fencingToken: string | null; reason: LossReason }
    >
  >,
  Check<
    Same<
      Flat<ReadWriteInspection>,
      {
        readonly state: "free" | Mode;
        readonly holding: number;
        readonly holders: readonly { readonly holder: string; readonly msLeft: number }[];
        readonly fencingToken: string | null;
        readonly waiters: number;
        readonly queue: readonly { readonly mode: Mode; readonly holder: string }[];
      }
    >
  >,
];
