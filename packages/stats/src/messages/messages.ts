import { KitClosedError, KitError, type RedisArgument } from "@kit/core";
import { asKitError, Deadline, isReplyError, newToken, onAbort, pause, resolve, traced } from "@kit/core/toolkit";
import { keyStarts, planRange } from "../time/buckets.js";
import { cutTo, fingerprintOf, masked } from "./fingerprint.js";
import { type Level, levelNames, levelOf, levels } from "./levels.js";
import { type LogKeys, logKeys } from "../keys.js";
import {
  frequentRules,
  type FrequentOptions,
  logOptions,
  type LogOptions,
  type MessagesSettings,
  recentOptions,
  type RecentOptions,
  tailRules,
  type TailOptions,
} from "../options.js";
import { Aggregate, type Operands, Outbox } from "../send/outbox.js";
import * as scripts from "../scripts/index.js";
import type { Shared } from "../shared.js";
import { Timeline } from "../time/timeline.js";

/** One message. */
export interface Entry {
  /** `<level> <id in its stream>`: grows with every entry of a level, by the server's clock. */
  readonly id: string;
  /** When it was logged, epoch milliseconds by the server's clock. */
  readonly at: number;
  readonly level: Level;
  /** The number that was passed, or that of the level. */
  readonly severity: number;
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
  /** Messages with the same fingerprint are counted together. */
  readonly fingerprint: string;
}

/** A page of entries, the newest first. */
export interface Page {
  readonly entries: readonly Entry[];
  /** The `before` of the next page; undefined after the last page. */
  readonly next: string | undefined;
}

/** A message and how often it was logged. */
export interface FrequentMessage {
  readonly level: Level;
  readonly fingerprint: string;
  /** One of its texts. */
  readonly sample: string;
  /** An upper bound of how often it was logged. */
  readonly count: number;
  /** The true number is at least `count - error`. */
  readonly error: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

const sampleBytes = 512;
const dayMs = 86_400_000;
/** How long a tail's call blocks on the server when there is no entry. */
const blockMs = 10_000;
const tailPauseMs = 200;

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

const addCount = (counts: Counts, level: Level, fingerprint: string, added: Count): void => {
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

/** Messages that were not sent yet: the last entries of each level, and all of them as counts. */
class Log extends Aggregate<Counts> {
  readonly entries: Map<Level, Pending[]> = new Map();
  readonly #keepEntries: number;

  constructor({ window, keepEntries }: MessagesSettings, { clock }: Shared) {
    super(new Timeline<Counts>(window.stepMs, clock, { make: () => new Map(), merge: mergeCounts }));
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

class LogOutbox extends Outbox<Log, undefined> {
  readonly keys: LogKeys;
  readonly #shared: Shared;
  readonly #settings: MessagesSettings;

  constructor(name: string, settings: MessagesSettings, shared: Shared) {
    super(name, shared.sender, {
      channel: scripts.log,
      delivery: settings.delivery,
      make: () => new Log(settings, shared),
    });
    this.#shared = shared;
    this.keys = logKeys(shared.prefix, name);
    this.#settings = settings;
  }

  protected override unitsOf(): number {
    return 0;
  }

  protected override move(from: Log, to: Log, places: number): number {
    return from.moveTo(to, places);
  }

  override prune(): void {
    // The instant of a message is that of its call.
  }

  override operands(seq: number, buffered: Log): Operands {
    const { clock } = this.#shared;
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

/**
 * A named log of messages: the last ones of each level, and how often each was logged. Made by `stats.messages()`.
 *
 * After the common and recent logs of "Redis in Action" (J. L. Carlson, 2013, chapter 5).
 */
export class Messages {
  readonly name: string;
  /** @internal */
  readonly outbox: LogOutbox;
  readonly #settings: MessagesSettings;
  readonly #shared: Shared;
  /** The fields of its spans. */
  readonly #facts = (): object => ({ log: this.name });

  /** Made by this package only. */
  constructor(name: string, settings: MessagesSettings, shared: Shared) {
    this.name = name;
    this.outbox = new LogOutbox(name, settings, shared);
    this.#settings = settings;
    this.#shared = shared;
  }

  /**
   * Stores a message and counts it, in one step at the server; returns at once, and sends within `flushMs`.
   *
   * `level` is a name, or a number: 45 is stored with `warn` (40), as 45. Under a flood the last `keepEntries` of a level are
   * sent, and all are counted. A message that does not fit into the buffer is reported by the event `dropped`.
   *
   * @throws {TypeError | RangeError} an argument is not what it should be.
   */
  log(level: Level | number, text: string, options: LogOptions = {}): void {
    const { life, sender } = this.#shared;
    const { name, severity } = levelOf(level);
    if (typeof text !== "string") throw new TypeError(`Expected \`text\` to be a string, got ${typeof text}`);
    const { maxTextBytes, mask, maxDistinct } = this.#settings;
    const { fields, fingerprint } = logOptions(options, maxTextBytes);
    if (life.isClosed) return sender.drop(this.name, "closed", 1);
    const cut = cutTo(text, maxTextBytes);
    const counted = fingerprint ?? fingerprintOf(mask ? masked(cut) : cut);
    const { buffered } = this.outbox;
    const localAt = performance.now();
    // The window itself takes no place, but its messages do. Without room for a message no window is begun, since it would
    // stay empty.
    const counts = buffered.timeline.slot(undefined, sender.hasRoom);
    if (!counts) return sender.drop(this.name, "full", 1);
    const known = counts.get(name);
    if (!known?.has(counted) && ((known?.size ?? 0) >= maxDistinct || !sender.admit()))
      return sender.drop(this.name, "full", 1);
    const isRoom = sender.admit();
    addCount(counts, name, counted, {
      count: 1,
      firstLocalAt: localAt,
      lastLocalAt: localAt,
      sample: cutTo(cut, sampleBytes),
    });
    // Without room for the entry, the message is still counted.
    if (isRoom) sender.release(buffered.add(name, { localAt, severity, text: cut, fields, fingerprint: counted }));
    buffered.units++;
    if (!this.outbox.isListed) sender.list(this.outbox);
  }

  /**
   * The last entries, the newest first: of one level, or of all from `minLevel` on. Entries of different levels with
   * the same instant are in the order of their levels.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   * @throws {KitUnavailableError} no server answered in time.
   */
  recent(options: RecentOptions = {}): Promise<Page> {
    return traced("stats.recent", this.#facts, async () => {
      const { level, minLevel, limit, before } = recentOptions(options);
      const wanted = wantedLevels(level, minLevel);
      const ends = wanted.map((name) => endOf(name, before));
      const streams = wanted.map((name) => this.outbox.keys.log(name));
      const { values } = await this.#shared.read(scripts.newest, streams, ["newest", limit + 1, ...ends]);
      const entries = values.flatMap((raw, index) => raw.map((one) => entryOf(wanted[index] ?? "info", one)));
      entries.sort(newestFirst);
      const page = entries.slice(0, limit);
      return { entries: page, next: entries.length > limit ? page.at(-1)?.id : undefined };
    });
  }

  /**
   * Entries as they are stored, from now on or from the last few; ends when `signal` aborts or the object is closed.
   *
   * It holds a dedicated connection. While that is replaced no entry is missed, as long as the level's stream keeps the new
   * ones. An outage is an event, and so is its end; the tail continues when it can.
   */
  async *tail(options: TailOptions = {}): AsyncGenerator<Entry, void, undefined> {
    const { minLevel, last, signal } = resolve("options", options, tailRules);
    const wanted = wantedLevels(undefined, minLevel);
    const ids = await this.#lastIds(wanted);
    if (last > 0)
      yield* (await this.recent({ minLevel, limit: last })).entries.filter(({ id }) => isUpTo(id, ids)).toReversed();
    const { context, life, deadlineMs } = this.#shared;
    const streams = wanted.map((name) => this.outbox.keys.log(name));
    const pool = context.pool("tail", 256);
    const isOver = (): boolean => life.isClosed || signal?.aborted === true;
    const { outage } = this.#shared.events;
    const loop = `tailing ${newToken()}`;
    try {
      while (!isOver()) {
        let entries: Entry[];
        try {
          const connection = await pool.checkOut(streams[0] ?? "", Deadline.in(deadlineMs), signal);
          outage.connected(loop);
          const stop = (): void => connection.returnToPool(false);
          const stopListening = onAbort(signal, stop);
          const forget = onAbort(life.signal, stop);
          try {
            for (;;) {
              const after = wanted.map((name) => ids.get(name) ?? "0");
              const args = ["BLOCK", blockMs, "COUNT", 100, "STREAMS", ...streams, ...after];
              const reply = await connection.call("XREAD", args, blockMs + deadlineMs);
              outage.worked(loop);
              entries = this.#read(reply, wanted, ids);
              yield* entries;
              if (isOver()) return;
            }
          } finally {
            stopListening();
            forget();
            connection.returnToPool(false);
          }
        } catch (error) {
          if (isOver() || error instanceof KitClosedError) return;
          // Waiting does not reconnect a client that its owner ended.
          if (context.executor.isEnded || (!KitError.is(error) && !isReplyError(error))) throw error;
          outage.failed(loop, asKitError(error, "A tail"));
          await pause(tailPauseMs, signal).catch(() => undefined);
        }
      }
    } finally {
      outage.ended(loop);
    }
  }

  /**
   * The messages that were logged most often in the windows that a span of time touches, the most frequent first.
   *
   * Of each level and window at most `maxDistinct` messages are counted: `count` is at most by `error` too high, and every
   * message that makes up more than 1/`maxDistinct` of a window is in it.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   * @throws {KitUnavailableError} no server answered in time.
   */
  frequent(options: FrequentOptions): Promise<FrequentMessage[]> {
    return traced("stats.frequent", this.#facts, async () => {
      const { level, limit, ...range } = resolve("options", options, frequentRules);
      const { window } = this.#settings;
      const guess = await this.#shared.serverNow();
      const starts = keyStarts(planRange([window], range, guess), window.stepMs, guess);
      const wanted = wantedLevels(level, undefined);
      const tops = await Promise.all(wanted.map((name) => this.#frequentOf(name, starts, limit)));
      return tops
        .flat()
        .toSorted((a, b) => b.count - a.count)
        .slice(0, limit);
    });
  }

  async #frequentOf(level: Level, starts: readonly number[], limit: number): Promise<FrequentMessage[]> {
    const keys = starts.map((at) => this.outbox.keys.top(level, at));
    const { maxDistinct } = this.#settings;
    const { values: lists } = await this.#shared.read(scripts.largest, keys, ["largest", maxDistinct], maxDistinct);
    const windows = lists.map((list) => new Map(list));
    // With a full list, a message that is not in it may have been logged as often as the rarest one that is.
    const floors = windows.map((counts) => (counts.size >= maxDistinct ? Math.min(...counts.values()) : 0));
    const totals = new Map<string, number>();
    for (const counts of windows)
      for (const fingerprint of counts.keys())
        if (!totals.has(fingerprint))
          totals.set(
            fingerprint,
            windows.reduce((sum, other, index) => sum + (other.get(fingerprint) ?? floors[index] ?? 0), 0),
          );
    const most = [...totals].toSorted(([, a], [, b]) => b - a).slice(0, limit);
    if (most.length === 0) return [];
    const hashes = starts.map((at) => this.outbox.keys.seen(level, at));
    const fingerprints = most.map(([fingerprint]) => fingerprint);
    const query = ["fields", ...fingerprints];
    const { values: known } = await this.#shared.read(scripts.fields, hashes, query, fingerprints.length);
    return most.map(([fingerprint, count], place) => {
      const found = known.map((values) => seenOf(values[place] ?? ""));
      const seen = found.filter((one) => one !== undefined);
      const error = found.reduce((sum, one, index) => sum + (one?.error ?? floors[index] ?? 0), 0);
      return {
        level,
        fingerprint,
        sample: seen.at(-1)?.sample ?? "",
        count,
        error,
        firstAt: Math.min(...seen.map(({ firstAt }) => firstAt)),
        lastAt: Math.max(...seen.map(({ lastAt }) => lastAt)),
      };
    });
  }

  async #lastIds(wanted: readonly Level[]): Promise<Map<Level, string>> {
    const { context, deadlineMs } = this.#shared;
    const streams = wanted.map((name) => this.outbox.keys.log(name));
    const ends = wanted.map(() => "+");
    const query = ["newest", 1, ...ends];
    const { values } = await scripts.newest.run(context, { keys: streams }, { query }, { deadlineMs });
    return new Map(values.map((raw, index) => [wanted[index] ?? "info", raw[0]?.id ?? "0-0"]));
  }

  #read(reply: unknown, wanted: readonly Level[], ids: Map<Level, string>): Entry[] {
    const entries = scripts.rawStreams(reply).flatMap(([key, found]) => {
      // The client may put a prefix of its own in front.
      const level = wanted.find((name) => key.endsWith(this.outbox.keys.log(name))) ?? "info";
      const last = found.at(-1);
      if (last) ids.set(level, last.id);
      return found.map((one) => entryOf(level, one));
    });
    return entries.toSorted(newestFirst).toReversed();
  }
}

const wantedLevels = (level: Level | undefined, minLevel: Level | undefined): Level[] =>
  level === undefined
    ? levelNames.filter((name) => levels[name] >= levels[minLevel ?? "trace"])
    : [levelOf(level).name];

const entryOf = (level: Level, { id, fields }: scripts.RawEntry): Entry => {
  const json = fields.get("fields") ?? "";
  return {
    id: `${level} ${id}`,
    at: Number(fields.get("at")),
    level,
    severity: Number(fields.get("level")),
    text: fields.get("text") ?? "",
    fields: json === "" ? {} : (JSON.parse(json) as Record<string, unknown>),
    fingerprint: fields.get("fingerprint") ?? "",
  };
};

const parsed = (id: string): readonly [ms: number, seq: number, level: number] => {
  const [level = "", ms = "", seq = ""] = id.split(/[ -]/);
  return [Number(ms), Number(seq), levels[level as Level]];
};

const newestFirst = (a: Entry, b: Entry): number => {
  const [msA, seqA, levelA] = parsed(a.id);
  const [msB, seqB, levelB] = parsed(b.id);
  return msB - msA || seqB - seqA || levelB - levelA;
};

/** The beginning of a level's page that follows the entry `before`. */
const endOf = (level: Level, before: string | undefined): string => {
  if (before === undefined) return "+";
  const [name, id] = before.split(" ") as [Level, string];
  return levels[level] < levels[name] ? id : `(${id}`;
};

const isUpTo = (id: string, ids: ReadonlyMap<Level, string>): boolean => {
  const [level, own] = id.split(" ") as [Level, string];
  const [ms, seq] = parsed(id);
  const [lastMs, lastSeq] = parsed(`${level} ${ids.get(level) ?? own}`);
  return ms < lastMs || (ms === lastMs && seq <= lastSeq);
};

const seenOf = (text: string) => {
  const [, error, firstAt, lastAt, sample] = /^(\d+) (\d+) (\d+) (.*)$/s.exec(text) ?? [];
  if (error === undefined) return undefined;
  return { error: Number(error), firstAt: Number(firstAt), lastAt: Number(lastAt), sample: sample ?? "" };
};
