import { defineScript } from "@kit/core";
import changeSource from "./change.lua";
import checkSource from "./check.lua";
import ratesSource from "./rates.lua";
import takeSource from "./take.lua";
import undoSource from "./undo.lua";

/** The states of a key and of the shared limits, before and after a wait. */
export interface Place {
  readonly before: string;
  readonly after: string;
  readonly allBefore: string;
  readonly allAfter: string;
}

/** The server's answer to one call. */
export interface Row {
  readonly state: "free" | "full" | "too-many" | "cannot-wait";
  readonly left: number;
  readonly resetMs: number;
  readonly delayMs: number;
  /** The position of the limit that refuses or delays the call, from 1. 0: none, -1: a block. */
  readonly limit: number;
  readonly place: Place | undefined;
}

const states: Readonly<Record<number, Row["state"]>> = { 1: "free", 0: "full", [-1]: "too-many", [-2]: "cannot-wait" };

const rowOf = (raw: unknown): Row => {
  const [code, left, resetMs, delayMs, limit, ...place] = raw as unknown[];
  const [before, after, allBefore, allAfter] = place as string[];
  return {
    state: states[Number(code)] ?? "full",
    left: Number(left),
    resetMs: Number(resetMs),
    delayMs: Number(delayMs),
    limit: Number(limit),
    place:
      before === undefined || after === undefined || allBefore === undefined || allAfter === undefined
        ? undefined
        : { before, after, allBefore, allAfter },
  };
};

/** The rows of a reply, and the limits that replace the caller's; empty if there are none. */
export interface Rows {
  readonly stored: string;
  readonly rows: readonly Row[];
}

const rowsOf = (raw: unknown): Rows => {
  const [stored, ...rows] = raw as unknown[];
  return { stored: String(stored), rows: rows.map(rowOf) };
};

/** Counts calls, in order. Sent twice it would count them twice, so kit never does. */
export const take = defineScript({
  name: "limiter.take",
  source: [ratesSource, takeSource],
  keys: ["limits", "all", "...rates"],
  args: ["settings", "...calls[op amount waitMs]"],
  reply: rowsOf,
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
  args: ["before", "after", "allBefore", "allAfter"],
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
