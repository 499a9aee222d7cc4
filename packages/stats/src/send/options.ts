import {
  choice,
  clientRules,
  type ClientOptions,
  custom,
  defaultsOf,
  integer,
  resolve,
  type Resolved,
  type Rule,
  type RulesOf,
  signal,
  text,
} from "@kit/core/toolkit";
import { instantOption } from "../time/buckets.js";
import type { Delivery } from "./outbox.js";

export const deliveries: readonly Delivery[] = ["at-most-once", "at-least-once", "effectively-once"];

/** Settings of a statistics object. */
export interface StatsOptions extends ClientOptions {
  /**
   * How long buffered amounts wait before they are sent, in milliseconds. The time varies by a tenth, so that processes don't
   * send together. A killed process loses the amounts of about the last `flushMs`, or its whole buffer if no server answered.
   *
   * @default 250
   */
  readonly flushMs?: number | undefined;
  /**
   * How many places the buffer has. A series uses one place for each unacknowledged bucket of its finest step. When the
   * buffer is full, further amounts are dropped and counted as `full`.
   *
   * @default 100000
   */
  readonly maxPending?: number | undefined;
  /**
   * What happens to an amount whose reply is lost.
   *
   * @default "effectively-once"
   */
  readonly delivery?: Delivery | undefined;
}

export const statsRules = {
  ...clientRules,
  flushMs: integer(1, 60_000, 250),
  maxPending: integer(1, 100_000_000, 100_000),
  delivery: choice(deliveries, "effectively-once"),
} satisfies RulesOf<StatsOptions>;

export type StatsSettings = Resolved<typeof statsRules>;

type Rules = Readonly<Record<string, Rule>>;

/** @throws {TypeError | RangeError} an option is invalid. */
export const optionsOf = <Table extends Rules>(
  options: { readonly [Name in keyof Table]?: unknown },
  rules: Table,
): Resolved<Table> => resolve("options", options, rules);

/** Resolves the options of a metric or log, whose `delivery` is by default the statistics object's. */
export const settingsOf = <Table extends Rules>(
  options: { readonly [Name in keyof Table]?: unknown },
  rules: Table,
  { delivery }: StatsSettings,
): Resolved<Table> & Pick<StatsSettings, "delivery"> =>
  resolve("options", options, rules, { ...defaultsOf(rules), delivery });

/** One amount or value. */
export interface WriteOptions {
  /**
   * When it happened, in epoch milliseconds of the server's clock. 0 is a valid time. An amount more than one minute ahead of
   * the server is dropped. A precision that no longer keeps this time does not store the amount.
   *
   * @default now
   */
  readonly at?: number | undefined;
}

export const writeRules = { at: custom(instantOption) } satisfies RulesOf<WriteOptions>;

/** Settings of an amount or value whose caller waits. */
export interface ConfirmOptions extends WriteOptions {
  /** Ends the wait with `signal.reason`. An amount that was already sent may still be counted. */
  readonly signal?: AbortSignal | undefined;
  /** The `op` of a `KitUnknownOutcomeError`: waits for that call's amount instead of adding another one. */
  readonly op?: string | undefined;
}

export const confirmRules = { ...writeRules, signal, op: text(128) } satisfies RulesOf<ConfirmOptions>;
