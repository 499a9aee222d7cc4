import { KitError, KitUnknownOutcomeError, type RunOptions } from "@kit/core";
import { Batcher } from "@kit/core/batching";
import { addressOf, type ClientContext, type Deadline, noAnswer, reading } from "@kit/core/toolkit";
import { LimiterBusyError } from "./errors.js";
import type { LimiterKeys } from "./keys.js";
import { type LimiterSettings, type LimitTerms, termsOf } from "./options.js";
import * as scripts from "./scripts/index.js";

const maxPending = 10_000;
const maxItems = 500;
const maxBytes = 262_144;

/** One row of `take.lua`. */
export interface Call {
  readonly rate: string;
  /** `c`: use tokens if they fit, `p`: use them in any case, `r`: return them, `b`: block the key, `x`: forget the key. */
  readonly op: "c" | "p" | "r" | "b" | "x";
  readonly amount: number;
  readonly waitMs: number;
  /** False: the call was rejected before it was sent. */
  isSent?: boolean;
}

/** Whether a script without arguments assumes this call. */
const isPlain = ({ op, amount, waitMs }: Call): boolean => op === "c" && amount === 1 && waitMs === 0;

/** The scripts of one limiter, on its client. Calls that are made while a command is under way share the next command. */
export class LimiterCommands {
  readonly #context: ClientContext;
  readonly #keys: LimiterKeys;
  readonly #deadlineMs: number;
  readonly #own: LimitTerms;
  /** The limits in the last reply. */
  #limits: LimitTerms;
  readonly #batcher: Batcher<Call, scripts.Row>;
  /** How many calls are not answered yet. */
  #open = 0;
  /** Whether calls were made together of late. */
  #isBusy = false;

  constructor(context: ClientContext, name: string, keys: LimiterKeys, { deadlineMs, limits }: LimiterSettings) {
    this.#context = context;
    this.#keys = keys;
    this.#deadlineMs = deadlineMs;
    this.#own = this.#limits = limits;
    const what = `limiter.take of ${JSON.stringify(name)}`;
    this.#batcher = new Batcher<Call, scripts.Row>({
      send: (calls, deadline) => this.#send(calls, deadline),
      deadlineMs,
      late: (call, _, stall) => {
        const lost = `${what} was sent to ${addressOf(context.client)}, but the reply was lost${stall}: it may have been counted`;
        if (call.isSent) return new KitUnknownOutcomeError(lost, undefined, undefined, false);
        call.isSent = false;
        return noAnswer(context.client, `${what} was not done`, stall);
      },
      full: () => new LimiterBusyError(name),
      owner: `Limiter ${JSON.stringify(name)}`,
      maxItems,
      maxBytes,
      sizeOf: ({ rate }) => rate.length,
      maxPending,
      delayMs: 0,
    });
  }

  /** The limits that applied to the last call. */
  get limits(): LimitTerms {
    return this.#limits;
  }

  /** Sends a single call immediately. A batch costs more, and saves only if calls wait. */
  async take(call: Call): Promise<scripts.Row> {
    const isSingle = this.#open++ === 0 && !this.#isBusy;
    this.#isBusy ||= !isSingle;
    try {
      if (!isSingle) return await this.#batcher.add(call);
      const [row] = await this.#run([call], { deadlineMs: this.#deadlineMs, isRepeatable: false });
      return row as scripts.Row;
    } finally {
      this.#open--;
    }
  }

  async check(rate: string, tokens: number): Promise<scripts.Row> {
    const { limits, all } = this.#keys;
    const args = { settings: this.#own.text, tokens };
    const run = scripts.check.run(this.#context, { limits, all, rate }, args, { deadlineMs: this.#deadlineMs });
    const [row] = this.#heard(await run);
    return row as scripts.Row;
  }

  /** Releases the place of a cancelled wait, unless another call came after it. */
  undo(rate: string, states: readonly string[]): Promise<boolean> {
    const { all } = this.#keys;
    return scripts.undo.run(this.#context, { rate, all }, { states }, { deadlineMs: this.#deadlineMs });
  }

  /** Stores limits, or removes them if `settings` is empty. A repeat that arrives late does not undo a later change. */
  async change(settings: string): Promise<void> {
    const { limits } = this.#keys;
    const run = (askedAt: string): Promise<string> =>
      scripts.change.run(this.#context, { limits }, { settings, askedAt }, { deadlineMs: this.#deadlineMs });
    while ((await run(await run("0"))) === "late");
    this.#limits = settings === "" ? this.#own : termsOf(settings);
  }

  close(deadline: Deadline): Promise<void> {
    return this.#batcher.close(deadline);
  }

  async #send(calls: readonly Call[], deadline: Deadline): Promise<readonly (scripts.Row | Error)[]> {
    // A batch may wait for a connection for longer than its first calls.
    await this.#context.executor.ready(reading("limiter.take", deadline));
    this.#isBusy = calls.length > 1;
    const wanted = calls.filter(({ isSent }) => isSent !== false);
    if (wanted.length === calls.length) return await this.#batch(calls, deadline);
    const rows = wanted.length === 0 ? [] : await this.#batch(wanted, deadline);
    const byCall = new Map(wanted.map((call, at) => [call, rows[at]] as const));
    return calls.map((call) => byCall.get(call) ?? new Error("its caller was told that it was not sent"));
  }

  async #batch(calls: readonly Call[], deadline: Deadline): Promise<readonly (scripts.Row | Error)[]> {
    const isWanted = (): boolean => {
      if (calls.some(({ isSent }) => isSent === false)) return false;
      for (const call of calls) call.isSent = true;
      return true;
    };
    const options = { deadlineMs: Math.max(1, deadline.remainingMs), isRepeatable: false, isWanted };
    try {
      return await this.#run(calls, options);
    } catch (error) {
      // Nothing was changed. One key that is damaged must not fail the calls of others.
      const isOfOne = KitError.is(error) && (error.code === "KIT_KEY_TYPE" || error.code === "KIT_LAYOUT");
      if (!isOfOne || calls.length === 1) throw error;
      const each = calls.map((call) => this.#run([call], options).catch((own: unknown) => [own as Error]));
      return (await Promise.all(each)).flat();
    }
  }

  async #run(calls: readonly Call[], options: RunOptions): Promise<readonly scripts.Row[]> {
    const { limits, all } = this.#keys;
    const keys = { limits, all, rates: calls.map(({ rate }) => rate) };
    const args = { settings: this.#own.text, calls: calls.every(isPlain) ? [] : calls };
    const answer = await scripts.take.run(this.#context, keys, args, options);
    if ("rows" in answer) return this.#heard(answer);
    this.#limits = this.#own;
    const limit = this.#own.list[0]!;
    return answer.map((level, at) => scripts.rowOfLevel(level, limit, calls[at]!.amount));
  }

  #heard({ stored, rows }: scripts.Rows): readonly scripts.Row[] {
    if (stored === "") this.#limits = this.#own;
    else if (stored !== this.#limits.text) this.#limits = termsOf(stored);
    return rows;
  }
}
