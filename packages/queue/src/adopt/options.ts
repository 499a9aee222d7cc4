import type { RedisLike } from "@kit/core";
import { boolean, custom, required, type RulesOf, signal, text } from "@kit/core/toolkit";

/** The address of a BullMQ queue. */
export interface BullAddress {
  /** The name of the BullMQ queue. */
  readonly from: string;
  /**
   * The beginning of BullMQ's keys.
   *
   * @default "bull"
   */
  readonly bullPrefix?: string | undefined;
  /** A client of the server that has it, if that is another one. */
  readonly redis?: RedisLike | undefined;
}

export const bullRules = {
  from: required(text(1_024)),
  bullPrefix: text(1_024, "bull"),
  redis: custom((_name, redis: RedisLike) => redis),
} satisfies RulesOf<BullAddress>;

/** How a BullMQ queue is adopted. */
export interface AdoptOptions {
  /**
   * Moves jobs and job schedulers. Without it nothing is changed, and the report says what would be moved.
   *
   * @default false
   */
  readonly run?: boolean | undefined;
  /**
   * The time zone for job schedulers whose pattern has no `tz`, by its IANA name: the one in which your BullMQ processes run.
   *
   * @default none: these job schedulers stay at BullMQ
   */
  readonly timezone?: string | undefined;
  /** Ends the adoption between two slices. The call rejects with `signal.reason`, and another one goes on. */
  readonly signal?: AbortSignal | undefined;
}

export const adoptRules = { run: boolean(false), timezone: text(64), signal } satisfies RulesOf<AdoptOptions>;
