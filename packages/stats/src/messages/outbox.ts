import type { RedisArgument } from "@kit/core";
import { Aggregate, Outbox } from "../send/outbox.js";
import type { Shared } from "../send/shared.js";
import { type LogKeys, logKeys } from "../store/keys.js";
import type { Operands } from "../store/commands.js";
import * as scripts from "../store/scripts/index.js";
import * as records from "../store/scripts/records.js";
import { dayMs } from "../time/days.js";
import { Timeline } from "../time/timeline.js";
import { Frequencies } from "./frequencies.js";
import type { Level } from "./levels.js";
import type { MessagesSettings } from "./options.js";

interface Pending {
  /** On the local monotonic clock; converted to the server's when it is sent. */
  readonly localAt: number;
  readonly severity: number;
  readonly text: string;
  readonly fields: string;
  readonly fingerprint: string;
}

/** What was counted in one window, by level. */
type Counts = Map<Level, Frequencies>;

/** The frequencies of a level, which are made if there are none. */
export const frequenciesOf = (counts: Counts, level: Level): Frequencies => {
  let known = counts.get(level);
  if (!known) counts.set(level, (known = new Frequencies()));
  return known;
};

const mergeCounts = (into: Counts, from: Counts): void => {
  for (const [level, frequencies] of from) frequenciesOf(into, level).merge(frequencies);
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
    for (const counts of this.timeline.values()) for (const known of counts.values()) size += known.counts.size;
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
      for (const [level, frequencies] of counts) {
        if (places <= 0 && frequencies.missed === 0) continue;
        const target = frequenciesOf(other.timeline.slot(start, () => true) as Counts, level);
        moved += frequencies.moveTo(target, Math.max(0, places));
        places -= target.counts.size;
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
    // A message is never ahead of the clock: its instant is the instant of its call.
  }

  override operands(buffered: Log): Operands {
    const { clock } = this.#shared.commands;
    const { window, keepEntries, keepMs, maxDistinct } = this.#settings;
    const atOf = (localAt: number): number => Math.floor(clock.at(localAt));
    const keys = [this.keys.meta, this.keys.writer(this.writer)];
    const metaMs = Math.max(keepMs, window.stepMs + window.keepMs) + dayMs;
    const plan: RedisArgument[] = [];
    records.logHead(plan, { streams: buffered.entries.size, keepEntries, keepMs, metaMs, maxDistinct });
    for (const [level, entries] of buffered.entries) {
      keys.push(this.keys.log(level));
      plan.push(entries.length);
      for (const { localAt, severity, text, fields, fingerprint } of entries) {
        records.logEntry(plan, { loggedAt: atOf(localAt), level: severity, text, fields, fingerprint });
      }
    }
    for (const [startAt, counts] of buffered.timeline.entries())
      for (const [level, { counts: listed, missed }] of counts) {
        if (listed.size === 0 && missed === 0) continue;
        keys.push(this.keys.top(level, startAt), this.keys.seen(level, startAt));
        const endsAt = startAt + window.stepMs + window.keepMs;
        records.logWindow(plan, { endsAt, missed, counts: listed.size });
        for (const [fingerprint, { score, sure, firstLocalAt, lastLocalAt, sample }] of listed) {
          const [firstAt, lastAt] = [atOf(firstLocalAt), atOf(lastLocalAt)];
          records.logCount(plan, { fingerprint, score, sure, firstAt, lastAt, sample });
        }
      }
    return { keys, plan };
  }

  override counted(): void {
    // Logs do not appear in an exposition.
  }

  override decode(): undefined {
    return undefined;
  }
}
