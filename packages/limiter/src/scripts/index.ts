import { defineScript } from "@kit/core";
import type { LimitTerm } from "../options.js";
import changeSource from "./change.lua";
import checkSource from "./check.lua";
import ratesSource from "./rates.lua";
import takeSource from "./take.lua";
import undoSource from "./undo.lua";

/** The server's answer to one call. */
export interface Row {
  readonly state: "free" | "full" | "too-many" | "cannot-wait";
  readonly left: number;
  readonly resetMs: number;
  readonly delayMs: number;
  /** The position of the limit that refuses or delays the call, from 1. 0: none, -1: a block. */
  readonly limit: number;
  /** The states before and after a wait, for `undo`; empty if there was none. */
  readonly states: readonly string[];
}

const codes: Readonly<Record<number, Row["state"]>> = { 1: "free", 0: "full", [-1]: "too-many", [-2]: "cannot-wait" };

const rowOf = (raw: unknown): Row => {
  const [code, left, resetMs, delayMs, limit, ...states] = raw as unknown[];
  return {
    state: codes[Number(code)] ?? "full",
    left: Number(left),
    resetMs: Number(resetMs),
    delayMs: Number(delayMs),
    limit: Number(limit),
    states: states as string[],
  };
};

/** The rows of a reply, and the limits that replace the caller's; empty if there are none. */
export interface Rows {
  readonly stored: string;
  readonly rows: readonly Row[];
}

const million = 1_000_000;
/** As in `rates.lua`. */
const longestMs = 10_000_000_000_000;

/** The row of a level, which is the whole answer to a usual call of `tokens`. `limit` is the caller's own. */
export const rowOfLevel = (level: number, { count, perMs, burst }: LimitTerm, tokens: number): Row => {
  const msOf = (millionths: number): number => Math.ceil(Math.min((millionths * perMs) / count / million, longestMs));
  const used = Math.abs(level);
  const isFree = level > 0;
  return {
    state: isFree ? "free" : "full",
    left: Math.max(0, Math.floor(burst - (used - 2) / million)),
    resetMs: msOf(used),
    delayMs: isFree ? 0 : msOf(used + (tokens - burst) * million - 1),
    limit: isFree ? 0 : 1,
    states: [],
  };
};

const rowsOf = (raw: unknown): Rows => {
  const [stored, ...rows] = raw as unknown[];
  return { stored: String(stored), rows: rows.map(rowOf) };
};

/** Counts calls, in order. Without `calls`, each uses one token. kit never sends it again, because the server would count the calls again. */
export const take = defineScript({
  name: "limiter.take",
  source: [ratesSource, takeSource],
  keys: ["limits", "all", "...rates"],
  args: ["settings", "...calls: op amount waitMs"],
  /** The levels of the usual calls, or rows. */
  reply: (raw): readonly number[] | Rows => {
    if (!Array.isArray(raw)) return [Number(raw)];
    return Array.isArray(raw[1]) ? rowsOf(raw) : raw.map(Number);
  },
});

/** Reads how a call would be decided. */
export const check = defineScript({
  name: "limiter.check",
  source: [ratesSource, checkSource],
  keys: ["limits", "all", "rate"],
  args: ["settings", "tokens"],
  readonly: true,
  reply: rowsOf,
});

/** Releases the place of a wait. A second run could release the place of another call that got the same one. */
export const undo = defineScript({
  name: "limiter.undo",
  source: undoSource,
  keys: ["rate", "all"],
  args: ["...states"],
  reply: (raw) => Number(raw) === 1,
});

/** Stores limits for all processes. */
export const change = defineScript({
  name: "limiter.change",
  source: [ratesSource, changeSource],
  keys: ["limits"],
  args: ["settings", "askedAt"],
  idempotent: true,
  reply: String,
});
