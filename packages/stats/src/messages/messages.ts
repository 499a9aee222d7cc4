import { traced } from "@kit/core/toolkit";
import { optionsOf } from "../send/options.js";
import type { Shared } from "../send/shared.js";
import * as scripts from "../store/scripts/index.js";
import { keyStarts, planRange } from "../time/buckets.js";
import { endOf, type Entry, entryOf, isUpTo, newestFirst, wantedLevels } from "./entry.js";
import { cutTo, fingerprintOf, masked } from "./fingerprint.js";
import { type FrequentMessage, frequentOf } from "./frequent.js";
import { type Level, levelOf } from "./levels.js";
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
} from "./options.js";
import { LogOutbox, frequenciesOf } from "./outbox.js";
import { tailOf } from "./tail.js";

/** A page of entries, the newest first. */
export interface Page {
  readonly entries: readonly Entry[];
  /** The `before` of the next page; undefined after the last page. */
  readonly next: string | undefined;
}

const sampleBytes = 512;

/**
 * A named log of messages: the last messages of each level, and how often each was logged. Create it with `stats.messages()`.
 *
 * The design follows the common and recent logs of "Redis in Action" (J. L. Carlson, 2013, chapter 5).
 */
export class Messages {
  readonly name: string;
  /** @internal */
  readonly outbox: LogOutbox;
  readonly #settings: MessagesSettings;
  readonly #shared: Shared;
  /** The fields of its spans. */
  readonly #facts = (): object => ({ log: this.name });

  /** For this package only: use `stats.messages()`. */
  constructor(name: string, settings: MessagesSettings, shared: Shared) {
    this.name = name;
    this.outbox = new LogOutbox(name, settings, shared);
    this.#settings = settings;
    this.#shared = shared;
  }

  /**
   * Stores a message and counts it, in one step on the server. It returns immediately; the message is sent within `flushMs`.
   *
   * `level` is a name or a number: 45 is stored at the level `warn` (40), with severity 45. During a flood, all messages of a
   * level are counted, but only its last `keepEntries` are sent. If a message does not fit into the buffer, the event
   * `dropped` reports it.
   *
   * @throws {TypeError | RangeError} an argument is invalid.
   */
  log(level: Level | number, text: string, options: LogOptions = {}): void {
    const { life, buffer } = this.#shared;
    const { name, severity } = levelOf(level);
    if (typeof text !== "string") throw new TypeError(`Expected \`text\` to be a string, got ${typeof text}`);
    const { maxTextBytes, mask, maxDistinct } = this.#settings;
    const { fields, fingerprint } = logOptions(options, maxTextBytes);
    if (life.isClosed) return buffer.drop(this.name, "closed", 1);
    const cut = cutTo(text, maxTextBytes);
    const counted = fingerprint ?? fingerprintOf(mask ? masked(cut) : cut);
    const { buffered } = this.outbox;
    const localAt = performance.now();
    // Messages need places, windows don't. Without room for a message no window is created, because it would stay empty.
    const counts = buffered.timeline.slot(undefined, buffer.hasRoom);
    if (!counts) return buffer.drop(this.name, "full", 1);
    const frequencies = frequenciesOf(counts, name);
    const isListed = frequencies.counts.has(counted);
    if (isListed || (frequencies.counts.size < maxDistinct && buffer.admit())) {
      const sample = isListed ? "" : cutTo(cut, sampleBytes);
      frequencies.add(counted, { score: 1, sure: 1, firstLocalAt: localAt, lastLocalAt: localAt, sample });
    } else if (frequencies.counts.size > 0) buffer.release(frequencies.miss());
    else return buffer.drop(this.name, "full", 1);
    const isRoom = buffer.admit();
    // Without room for the entry, the message is still counted.
    if (isRoom) buffer.release(buffered.add(name, { localAt, severity, text: cut, fields, fingerprint: counted }));
    buffered.units++;
    if (!this.outbox.isListed) buffer.list(this.outbox);
  }

  /**
   * Returns the last entries, the newest first, of one level or of all levels that are at least `minLevel`. Entries of
   * different levels with the same time are in the order of their levels. One call reads about 4 MiB, so a page of long texts
   * has fewer entries than `limit`. `next` shows whether more entries follow.
   *
   * @throws {TypeError | RangeError} an option is invalid.
   * @throws {KitUnavailableError} no server answered in time.
   */
  recent(options: RecentOptions = {}): Promise<Page> {
    return traced("stats.recent", this.#facts, async () => {
      const { level, minLevel, limit, before } = recentOptions(options);
      const wanted = wantedLevels(level, minLevel);
      const ends = wanted.map((name) => endOf(name, before));
      const streams = wanted.map((name) => this.outbox.keys.log(name));
      const { values } = await this.#shared.commands.read(scripts.newest, streams, ["newest", limit + 1, ...ends]);
      const cut = new Set<string>();
      const entries = values.flatMap((raw, index) =>
        raw.map((one) => {
          const entry = entryOf(wanted[index] ?? "info", one);
          if (one.fields.size === 0) cut.add(entry.id);
          return entry;
        }),
      );
      entries.sort(newestFirst);
      // After a cut, it is unknown what else the level has.
      const end = entries.findIndex(({ id }) => cut.has(id));
      const page = entries.slice(0, end < 0 ? limit : Math.min(limit, end));
      return { entries: page, next: entries.length > page.length ? page.at(-1)?.id : undefined };
    });
  }

  /**
   * Delivers entries as they are stored, starting now or with the last few. It ends when `signal` aborts or the object is
   * closed.
   *
   * It holds a dedicated connection. After a lost connection it continues after its last entry, and misses no entry that the
   * level's stream still keeps. The event `error` reports the start and the end of an outage.
   *
   * @throws {KitError} `KIT_UNSUPPORTED`: the client has no connections.
   */
  async *tail(options: TailOptions = {}): AsyncGenerator<Entry, void, undefined> {
    const { minLevel, last, signal } = optionsOf(options, tailRules);
    yield* tailOf(this.outbox.keys, wantedLevels(undefined, minLevel), this.#shared, signal, async (ids) => {
      if (last === 0) return [];
      const entries: Entry[] = [];
      for (let before: string | undefined; entries.length < last;) {
        const page = await this.recent({ minLevel, limit: last - entries.length, before });
        entries.push(...page.entries);
        before = page.next;
        if (before === undefined) break;
      }
      return entries.filter(({ id }) => isUpTo(id, ids)).toReversed();
    });
  }

  /**
   * Returns the messages that were logged most often in the windows that a span of time touches, the most frequent first.
   *
   * Each level counts up to `maxDistinct` messages in a window, so `count` may be too high by up to `error`. Every message
   * that makes up more than 1/`maxDistinct` of its level in a window is found.
   *
   * @throws {TypeError | RangeError} an option is invalid.
   * @throws {KitUnavailableError} no server answered in time.
   */
  frequent(options: FrequentOptions): Promise<FrequentMessage[]> {
    return traced("stats.frequent", this.#facts, async () => {
      const { level, limit, ...range } = optionsOf(options, frequentRules);
      const { window, maxDistinct } = this.#settings;
      const { commands } = this.#shared;
      const guess = await commands.serverNow();
      const starts = keyStarts(planRange([window], range, guess), window.stepMs, guess);
      const wanted = wantedLevels(level, undefined);
      const tops = await Promise.all(
        wanted.map((name) => frequentOf(name, starts, limit, maxDistinct, this.outbox.keys, commands)),
      );
      return tops
        .flat()
        .toSorted((a, b) => b.count - a.count)
        .slice(0, limit);
    });
  }
}
