// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { KitError, RedisLike } from "@kit/core";
import type {
  AcquireOptions,
  CloseOptions,
  createQuorumLock,
  LeaseOptions,
  LossReason,
  QuorumError,
  QuorumErrorCode,
  QuorumInspection,
  QuorumLease,
  QuorumLock,
  QuorumLockEvents,
  QuorumLockOptions,
  ReleaseOutcome,
  SameServerError,
  TryOptions,
  Vote,
} from "../src/quorum/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;

export type Pins = [
  Check<Same<typeof createQuorumLock, (clients: readonly RedisLike[], options?: QuorumLockOptions) => QuorumLock>>,
  Check<
    Same<
      Exclude<keyof QuorumLock, "on" | "off" | "once">,
      "acquire" | "tryAcquire" | "using" | "inspect" | "resume" | "close" | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<QuorumLock["acquire"], (name: string, options?: AcquireOptions) => Promise<QuorumLease>>>,
  Check<Same<QuorumLock["tryAcquire"], (name: string, options?: TryOptions) => Promise<QuorumLease | null>>>,
  Check<Same<QuorumLock["inspect"], (name: string) => Promise<QuorumInspection>>>,
  Check<Same<QuorumLock["resume"], (text: string) => Promise<QuorumLease>>>,
  Check<Same<QuorumLock["close"], (options?: CloseOptions) => Promise<void>>>,
  Check<
    Same<
      keyof QuorumLockOptions,
      keyof LeaseOptions | "prefix" | "isolate" | "deadlineMs" | "nodeTimeoutMs" | "restartGuardMs"
    >
  >,
  Check<Same<keyof QuorumLockEvents, "acquired" | "released" | "lost" | "unguarded" | "evictable" | "error">>,
  Check<Same<QuorumLockEvents["lost"], readonly [event: { name: string; reason: LossReason }]>>,
  Check<Same<ReturnType<QuorumLease["release"]>, Promise<ReleaseOutcome>>>,
  Check<Same<keyof QuorumInspection, "state" | "holder" | "msLeft" | "votes">>,
  Check<Same<Vote["vote"], "granted" | "free" | "held" | "abstained" | "no-answer" | "error">>,
  Check<Same<Exclude<keyof QuorumError, keyof KitError>, "resource" | "quorum" | "votes">>,
  Check<Same<QuorumError["votes"], readonly Vote[]>>,
  Check<Same<Exclude<keyof SameServerError, keyof KitError>, "servers" | "positions">>,
  Check<Same<QuorumErrorCode, "KIT_LOCK_QUORUM" | "KIT_LOCK_SAME_SERVER">>,
];
