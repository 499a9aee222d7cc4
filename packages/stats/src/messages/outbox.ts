import type { RedisArgument } from "@kit/core";
import { type LogKeys, logKeys } from "../keys.js";
import type { MessagesSettings } from "../options.js";
import * as scripts from "../scripts/index.js";
import { Aggregate, type Operands, Outbox } from "../send/outbox.js";
import type { Shared } from "../shared.js";
import { dayMs } from "../time/days.js";
import { Timeline } from "../time/timeline.js";
import type { Level } from "./levels.js";

interface Pending {
  /** On the local monotonic clock; converted to the server's when it is sent. */
  readonly localAt: number;
  readonly severity: number;
  readonly text: string;
  readonly fields: string;
  readonly fingerprint: string;
}

interface Count {
  count: number;
  firstLocalAt: number;
  lastLocalAt: number;
  readonly sample: string;
}

/** The counts of one window, by level and fingerprint. */
type Counts = Map<Level, Map<string, Count>>;

/** Counts a message. */
export const addCount = (counts: Counts, level: Level, fingerprint: string, added: Count): void => {
  let ofLevel = counts.get(level);
  if (!ofLevel) counts.set(level, (ofLevel = new Map()));
  const known = ofLevel.get(fingerprint);
  if (!known) {
    ofLevel.set(fingerprint, { ...added });
    return;
  }
  known.count += added.count;
  known.firstLocalAt = Math.min(known.firstLocalAt, added.firstLocalAt);
  known.lastLocalAt = Math.max(known.lastLocalAt, added.lastLocalAt);
};

const mergeCounts = (into: Counts, from: Counts): void => {
  for (const [level, counts] of from)
    for (const [fingerprint, count] of counts) addCount(into, level, fingerprint, count);
};

/** Unsent messages: the last entries of each level, and the counts of all. */
class Log extends Aggregate<Counts> {
  readonly entries: Map<Level, Pending[]> = new Map();
  readonly #keepEntries: number;

  constructor({ window, keepEntries }: MessagesSettings, { commands }: Shared) {
    super(new Timeline<Counts>(window.stepMs, commands.clock, { make: () => new Map(), merge: mergeCounts }));
    this.#keepEntries = keepEntries;
  }

  override get size(): number {
    let size = 0;
    for (const entries of this.entries.values()) size += entries.length;
    for (const counts of this.timeline.values()) for (const { size: places } of counts.values()) size += places;
    return size;
  }

  /** Drops entries beyond the number that a level keeps. Returns how many places that has freed. */
  add(level: Level, entry: Pending): number {
    const entries = this.entries.get(level) ?? [];
    this.entries.set(level, entries);
    entries.push(entry);
    if (entries.length <= this.#keepEntries) return 0;
    entries.shift();
    return 1;
  }

  /** Moves this many entries and fingerprints into an empty buffer; returns how many messages they count. */
  moveTo(other: Log, places: number): number {
    for (const [level, entries] of this.entries) {
      other.entries.set(level, entries.splice(0, places));
      places -= other.entries.get(level)?.length ?? 0;
    }
    let moved = 0;
    for (const [start, counts] of this.timeline.entries())
      for (const [level, ofLevel] of counts)
        for (const [fingerprint, count] of ofLevel) {
          if (places-- <= 0) return moved;
          ofLevel.delete(fingerprint);
          addCount(other.timeline.slot(start, () => true) as Counts, level, fingerprint, count);
          moved += count.count;
        }
    return moved;
  }

  override absorb(other: this): void {
    for (const [level, older] of other.entries)
      this.entries.set(level, [...older, ...(this.entries.get(level) ?? [])].slice(-this.#keepEntries));
    super.absorb(other);
  }
}

/** The messages of one log that are not acknowledged. */
export class LogOutbox extends Outbox<Log, undefined> {
  readonly keys: LogKeys;
  readonly #shared: Shared;
  readonly #settings: MessagesSettings;

  constructor(name: string, settings: MessagesSettings, shared: Shared) {
    super(name, shared.buffer, {
      channel: scripts.log,
      delivery: settings.delivery,
      make: () => new Log(settings, shared),
    });
    this.#shared = shared;
    this.keys = logKeys(shared.commands.prefix, name);
    this.#settings = settings;
  }

  protected override unitsOf(): number {
    return 0;
  }

  protected override move(from: Log, to: Log, places: number): number {
    return from.moveTo(to, places);
  }

  override prune(): void {
    // A message never lies ahead: its instant is that of its call.
  }

  override operands(seq: number, buffered: Log): Operands {
    const { clock } = this.#shared.commands;
    const { window, keepEntries, keepMs, maxDistinct } = this.#settings;
    const atOf = (localAt: number): number => Math.floor(clock.at(localAt));
    const keys = [this.keys.meta, this.keys.writer(this.writer)];
    const streams: RedisArgument[] = [];
    for (const [level, entries] of buffered.entries) {
      keys.push(this.keys.log(level));
      streams.push(entries.length);
      for (const { localAt, severity, text, fields, fingerprint } of entries)
        streams.push(atOf(localAt), severity, text, fields, fingerprint);
    }
    let windows = 0;
    const counted: RedisArgument[] = [];
    for (const [startAt, counts] of buffered.timeline.entries())
      for (const [level, ofLevel] of counts) {
        windows++;
        keys.push(this.keys.top(level, startAt), this.keys.seen(level, startAt));
        counted.push(startAt + window.stepMs + window.keepMs, ofLevel.size);
        for (const [fingerprint, { count, firstLocalAt, lastLocalAt, sample }] of ofLevel)
          counted.push(fingerprint, count, atOf(firstLocalAt), atOf(lastLocalAt), sample);
      }
    const metaMs = Math.max(keepMs, window.stepMs + window.keepMs) + dayMs;
    const head = [seq, buffered.entries.size, windows, keepEntries, keepMs, metaMs, maxDistinct];
    const plan = [...head, ...streams, ...counted];
    return { keys, plan: [plan.length, ...plan] };
  }

  override counted(): void {
    // Logs do not appear in an exposition.
  }

  override decode(): undefined {
    return undefined;
  }
}
