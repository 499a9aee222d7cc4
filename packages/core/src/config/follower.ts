import type { KitError } from "../index.js";
import { noAnswer } from "../toolkit/index.js";
import type { ConfigCommands } from "./commands.js";
import { EntryReader, isAboutEntry } from "./entry-reader.js";
import { ConfigInvalidError, ConfigLostError, ConfigMissingError, isAboutValue } from "./errors.js";
import type { ReadyOptions } from "./options.js";
import { type Content, contentOf, type StandardSchema } from "./schema.js";
import { type ConfigVersion, type StoredEntry, versionText } from "./scripts.js";
import { limitOf, Waiters } from "./waiters.js";

/**
 * The state of `current`.
 *
 * - `loading`: there is no value yet
 * - `fresh`: the value in Redis, and each change is pushed
 * - `stale`: the last good value, because the connection or the subscription is lost, or a read failed
 * - `degraded`: the last good value, because the entry was deleted, or its value is invalid
 */
export type ConfigState = "loading" | "fresh" | "stale" | "degraded";

/** Receives a follower's reports, synchronously. */
interface FollowerListener<Value> {
  changed(content: Content<Value>, previous: Content<Value> | undefined): void;
  /** `why` is for people. */
  became(state: ConfigState, why: string): void;
  /** A failure in the background. Reported once when it starts, not at each try. */
  failed(error: KitError): void;
}

/** The state of a value and its last failure, as its owner and its waiters get them. */
class Standing {
  readonly waiters = new Waiters();
  readonly #listener: Pick<FollowerListener<unknown>, "became" | "failed">;
  state: ConfigState = "loading";
  failure: KitError | undefined;

  constructor(listener: Pick<FollowerListener<unknown>, "became" | "failed">) {
    this.#listener = listener;
  }

  report(error: KitError): void {
    // During an outage the messages of the tries differ.
    const isNews = this.failure?.code !== error.code || (isAboutValue(error) && this.failure !== error);
    this.failure = error;
    if (isNews) this.#listener.failed(error);
    this.waiters.failed(error);
  }

  stale(why: string): void {
    if (this.state === "fresh") this.become("stale", why);
  }

  become(state: ConfigState, why: string): void {
    if (this.state === state) return;
    this.state = state;
    this.#listener.became(state, why);
  }
}

/** Follows an entry: keeps its last good value, and decides after each read whether to replace it. */
export class Follower<Value> {
  readonly #commands: ConfigCommands;
  readonly #schema: StandardSchema<unknown, Value> | undefined;
  readonly #default: string | undefined;
  readonly #listener: FollowerListener<Value>;
  readonly #standing: Standing;
  readonly #reader: EntryReader;
  #content: Content<Value> | undefined;
  /** The entry of `content`. Undefined if `content` is the default, or there is no value. */
  #entry: StoredEntry | undefined;
  #confirmedAt = performance.now();
  /** The rejected entry, and the reason. */
  #refused:
    | { readonly version: string; readonly text: string; readonly error: ConfigInvalidError; readonly isFinal: boolean }
    | undefined;
  /** A version that cannot follow the known version. It is read again before it is accepted. */
  #suspect: string | undefined;
  /** The entry was missing at the last read. */
  #missing: ConfigMissingError | undefined;

  /** `initial`: the default, as JSON. */
  constructor(
    commands: ConfigCommands,
    schema: StandardSchema<unknown, Value> | undefined,
    initial: string | undefined,
    listener: FollowerListener<Value>,
  ) {
    this.#commands = commands;
    this.#schema = schema;
    this.#default = initial;
    this.#listener = listener;
    this.#standing = new Standing(listener);
    this.#reader = new EntryReader(commands, {
      take: (entry, sentAt) => this.#take(entry, sentAt),
      failed: (error) => this.#fail(error),
      lost: (why) => this.#standing.stale(why),
    });
  }

  /** The last good value. Undefined before the first one. */
  get content(): Content<Value> | undefined {
    return this.#content;
  }

  /** The version of `content`. Undefined if `content` is the default, or there is no value. */
  get version(): ConfigVersion | undefined {
    return this.#entry?.version;
  }

  get state(): ConfigState {
    return this.#standing.state;
  }

  /** How long ago the server last confirmed `content`, even while fresh. Before the first confirmation, the age of this object. */
  get unconfirmedMs(): number {
    return performance.now() - this.#confirmedAt;
  }

  /** Requests a read. */
  want(): void {
    this.#reader.want();
  }

  /** Resolves once there is a value. Rejects like `ready()` of a configuration. */
  async untilFound(resolved: ReadyOptions): Promise<void> {
    if (this.#content) return;
    this.#commands.life.assertOpen();
    // The cause of an earlier failure may have ended.
    if (this.#standing.failure) this.want();
    const outlasts = (error: KitError): boolean =>
      (this.#commands.settings.waitsForMissing && isAboutValue(error)) ||
      (resolved.waitMs !== undefined && error.retryable && !(error instanceof ConfigMissingError));
    const { context, name } = this.#commands;
    const late = (): KitError =>
      this.#standing.failure ?? noAnswer(context.client, `configuration ${JSON.stringify(name)} was not read`);
    await this.#standing.waiters.wait(limitOf(resolved), outlasts, late);
  }

  /** Accepts a value that this process has written at `sentAt`, unless it has read a newer one. */
  written(content: Content<Value>, version: ConfigVersion, text: string, sentAt: number): void {
    const known = this.version;
    const isNewer = !known || this.#missing || succeeds(version, known);
    if (isNewer && !this.#commands.life.isClosed) this.#accept(content, { version, text }, sentAt);
    else this.want();
  }

  /** Stops reading. Waits in `untilFound` reject, and the value becomes stale. */
  close(): void {
    this.#reader.stop();
    this.#standing.waiters.failed(this.#commands.life.closedError());
    this.#standing.stale("the object is closed");
  }

  async #take(entry: StoredEntry | undefined, sentAt: number): Promise<void> {
    if (!entry) return await this.#takeNothing(sentAt);
    const known = this.version;
    const text = versionText(entry.version);
    const isSame = known !== undefined && text === versionText(known);
    // Somebody may have edited only the value.
    if (isSame && entry.text === this.#entry?.text) return this.#confirm(sentAt);
    const isLost = known !== undefined && !isSame && !this.#missing && !succeeds(entry.version, known);
    if (isLost && this.#suspect !== text) {
      this.#suspect = text;
      this.#reader.want();
      return;
    }
    const content = await this.#validated(text, entry.text);
    if (!content || this.#commands.life.isClosed) return;
    if (isLost) this.#listener.failed(new ConfigLostError(this.#commands.name, known, entry.version));
    this.#accept(content, entry, sentAt);
  }

  /** The content of `text`. Undefined if it was rejected, or is older than the current content. */
  async #validated(version: string, text: string): Promise<Content<Value> | undefined> {
    const isKnown = this.#refused?.version === version && this.#refused.text === text;
    const before = isKnown ? this.#refused : undefined;
    if (before?.isFinal) {
      this.#refuse(before.error);
      return undefined;
    }
    const known = this.#entry;
    const limit = this.#commands.limit({ deadlineMs: this.#commands.settings.deadlineMs, signal: undefined });
    let content: Content<Value> | undefined;
    let refused: ConfigInvalidError | undefined;
    try {
      content = await contentOf(this.#commands.name, this.#schema, text, limit);
    } catch (error) {
      if (!(error instanceof ConfigInvalidError)) throw error;
      refused = error;
    }
    // A write of this object finished before the schema did.
    if (this.#entry !== known) {
      this.#reader.want();
      return undefined;
    }
    if (refused && !this.#commands.life.isClosed) {
      // A schema that was too slow may be quicker the next time. Until then its error is not reported again.
      const isFinal = limit.deadline.remainingMs > 1;
      const error = isFinal ? refused : (before?.error ?? refused);
      this.#refused = { version, text, error, isFinal };
      this.#refuse(error);
    }
    return content;
  }

  async #takeNothing(sentAt: number): Promise<void> {
    if (this.#entry || this.#default === undefined)
      return this.#refuse((this.#missing ??= new ConfigMissingError(this.#commands.name)));
    if (this.#content) return this.#confirm(sentAt);
    const content = await this.#validated("default", this.#default);
    if (content && !this.#commands.life.isClosed) this.#accept(content, undefined, sentAt);
  }

  #accept(content: Content<Value>, entry: StoredEntry | undefined, sentAt: number): void {
    const previous = this.#content;
    const isOther = previous?.canonical !== content.canonical;
    if (isOther) this.#content = content;
    this.#entry = entry;
    this.#confirm(sentAt);
    if (isOther) this.#listener.changed(content, previous);
    this.#standing.waiters.found();
  }

  /** The server had the current version, or an older one, at `sentAt`. */
  #confirm(sentAt: number): void {
    this.#confirmedAt = sentAt;
    this.#missing = undefined;
    this.#refused = undefined;
    this.#suspect = undefined;
    this.#standing.failure = undefined;
    // The change that made the value stale came after this reply.
    if (this.state === "stale" && this.#reader.isWanted) return;
    if (this.#reader.isListening) this.#standing.become("fresh", "the server confirmed it");
    else this.#standing.become("stale", "the server does not push changes at the moment");
  }

  /** The entry is missing or invalid. The last good value stays. */
  #refuse(error: KitError): void {
    if (this.#content) this.#standing.become("degraded", error.message);
    this.#standing.report(error);
  }

  #fail(error: KitError): void {
    if (isAboutEntry(error)) {
      this.#refuse(error);
      return;
    }
    this.#standing.stale(error.message);
    this.#standing.report(error);
  }
}

/** Whether `version` can have been written after `known`. */
const succeeds = (version: ConfigVersion, known: ConfigVersion): boolean =>
  version.epoch === known.epoch && version.revision > known.revision;
