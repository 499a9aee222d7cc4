import type { RedisLike } from "@kit/core";
import { boolean, custom, required, type RulesOf, signal, text } from "@kit/core/toolkit";

/** The address of a BullMQ queue. */
export interface BullAddress {
  /** The name of the BullMQ queue. */
  readonly from: string;
  /**
   * The prefix of BullMQ's keys.
   *
   * @default "bull"
   */
  readonly bullPrefix?: string | undefined;
  /** A client of BullMQ's server, if that is a different server. */
  readonly redis?: RedisLike | undefined;
}

export const bullRules = {
  from: required(text(1_024)),
  bullPrefix: text(1_024, "bull"),
  redis: custom((_name, redis: RedisLike) => redis),
} satisfies RulesOf<BullAddress>;

/** Options of `adoptBullQueue()`. */
export interface AdoptOptions {
  /**
   * Moves jobs and job schedulers. If false, nothing changes, and the report shows what would move.
   *
   * @default false
   */
  readonly run?: boolean | undefined;
  /**
   * The time zone of job schedulers whose pattern has no `tz`, as an IANA name. Pass the zone in which your BullMQ processes run.
   *
   * @default none: these job schedulers stay in BullMQ
   */
  readonly timezone?: string | undefined;
  /** Stops the adoption after the current slice of up to 100 jobs. The call rejects with `signal.reason`. Call again to continue. */
  readonly signal?: AbortSignal | undefined;
}

export const adoptRules = { run: boolean(false), timezone: text(64), signal } satisfies RulesOf<AdoptOptions>;
