import { defineScript } from "@kit/core";
import findSource from "./find.lua";
import keepSource from "./keep.lua";
import readSource from "./read.lua";
import sealSource from "./seal.lua";
import stageSource from "./stage.lua";
import switchSource from "./switch.lua";

/** Stores data that expires unless its version becomes the serving one. */
export const stage = defineScript({
  name: "geoip.stage",
  source: stageSource,
  keys: ["target"],
  args: ["stagingMs", "...fields"],
  idempotent: true,
  reply: () => undefined,
});

/** The serving version; none without `current`. */
export interface Head {
  /** Epoch milliseconds of the server. */
  readonly now: number;
  readonly current: string | undefined;
  /** The previous version; empty if there is none. */
  readonly previous: string;
  /** Counts switches: the effects of a switch yield to the effects of a later switch. */
  readonly epoch: number;
  /** Whether all keys of the serving version are known to be permanent. */
  readonly isSealed: boolean;
  readonly keepMs: number;
  /** When this version was switched to, epoch milliseconds of the server. */
  readonly switchedAt: number;
}

export const read = defineScript({
  name: "geoip.read",
  source: readSource,
  keys: ["current"],
  args: [],
  readonly: true,
  reply: (raw): Head => {
    const [now, current, previous = "", epoch, isSealed, keepMs, at] = raw as (string | undefined)[];
    return {
      now: Number(now),
      current,
      previous,
      epoch: Number(epoch),
      isSealed: isSealed === "1",
      keepMs: Number(keepMs),
      switchedAt: 1_000 * Number(at),
    };
  },
});

const switched = ["changed", "serving", "gone"] as const;

/** Moves the pointer. */
export const switchTo = defineScript({
  name: "geoip.switch",
  source: switchSource,
  keys: ["current", "incoming", "before"],
  args: ["version", "expected", "previous", "keepMs", "mayAbandon", "channel"],
  idempotent: true,
  reply: (raw): (typeof switched)[number] => switched[Number(raw)] ?? "changed",
});

/** Sets the life of a shard; false if it is gone. */
export const keep = defineScript({
  name: "geoip.keep",
  source: keepSource,
  keys: ["shard"],
  args: ["epoch", "ms"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/** Ends a switch; false if there was another one since. */
export const seal = defineScript({
  name: "geoip.seal",
  source: sealSource,
  keys: ["current", "previous"],
  args: ["version", "epoch", "keepMs"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

const numberOf = (bytes: Buffer, family: 4 | 6): number | bigint => {
  if (family === 4) return bytes.readUInt32BE(0);
  const high = bytes.readBigUInt64BE(0) << 64n;
  return bytes.length === 8 ? high : high | bytes.readBigUInt64BE(8);
};

/** A range found by the server; undefined if the page is gone or damaged. */
export interface FoundRange {
  readonly first: number | bigint;
  readonly place: number;
  readonly next: number | bigint | undefined;
}

/** Searches a page on the server. */
export const find = defineScript({
  name: "geoip.find",
  source: findSource,
  keys: ["shard"],
  args: ["field", "address"],
  readonly: true,
  bytes: true,
  reply: (raw): FoundRange | undefined => {
    const [first, place, next] = raw as (Buffer | undefined)[];
    if (!first || !place || !next) return undefined;
    const family = first.length === 4 ? 4 : 6;
    return {
      first: numberOf(first, family),
      place: Number(place.toString()),
      next: next.length === 0 ? undefined : numberOf(next, family),
    };
  },
});
