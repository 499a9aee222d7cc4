import { inspect } from "node:util";
import { type KitError, type RedisLike } from "../index.js";
import {
  asKitError,
  backoffMs,
  Deadline,
  type Limit,
  noAnswer,
  type ObjectLife,
  resolve,
  traced,
  TypedEmitter,
} from "../toolkit/index.js";
import { ConfigConflictError, ConfigInvalidError, ConfigLostError, ConfigMissingError } from "./errors.js";
import {
  type AskOptions,
  type ConfigOptions,
  configSettings,
  type HistoryOptions,
  historyRules,
  askRules,
  callSettings,
  mostHistory,
  type Question,
  type ReadyOptions,
  readyRules,
  type SetOptions,
  type ResolvedWrite,
  setRules,
} from "./options.js";
import { type Content, contentOf, jsonOf, parseJson, type StandardSchema } from "./schema.js";
import { type ConfigVersion, type StoredEntry, versionText } from "./scripts.js";
import { Store } from "./store.js";
import { limitOf, Waiters } from "./waiters.js";

/**
 * The state of `current`.
 *
 * - `loading`: there is no value yet
 * - `fresh`: it is the entry's value; each change is pushed
 * - `stale`: the last good value; the connection or the subscription is lost, or a read failed
 * - `degraded`: the last good value; the entry is gone, or its value is refused
 */
export type ConfigState = "loading" | "fresh" | "stale" | "degraded";

/** Events of a configuration. */
export interface ConfigEvents<Value> {
  /** The content changed. For the first value `previous` is undefined. */
  readonly change: readonly [next: Value, previous: Value | undefined];
  /** `why` is for people. */
  readonly state: readonly [state: ConfigState, why: string];
  /**
   * A failure in the background: ConfigMissingError, ConfigInvalidError, ConfigLostError, or an error of the server. Emitted
   * when it begins, not at each try.
   */
  readonly error: readonly [error: KitError];
}

/** A write, as the history keeps it. */
export interface ConfigRevision extends ConfigVersion {
  readonly author: string;
  /** The value as written: plain JSON, not checked by a schema since. */
  readonly value: unknown;
}

/** How long to wait for the subscription before the first look. */
const graceMs = 500;
/** The pauses between failed tries: short in an outage, since a Cluster does not announce recovered slots. */
const retryBaseMs = 100;
const outageCapMs = 1_000;
const refusalCapMs = 5_000;

/**
 * One named value in Redis, followed by this process: read without a round trip, changed with compare-and-set. Made by
 * {@link createConfig}.
 *
 * The last good value stays until the next good one, also when the server is down or the entry is deleted. `state` and
 * `staleMs` show such a case.
 */
export class Config<Value = unknown, Input = Value>
  extends TypedEmitter<ConfigEvents<Value>>
  implements AsyncDisposable
{
  readonly name: string;
  readonly #store: Store;
  readonly #schema: StandardSchema<unknown, Value> | undefined;
  readonly #default: string | undefined;
  readonly #life: ObjectLife;
  readonly #waiters = new Waiters();
  #content: Content<Value> | undefined;
  #version: ConfigVersion | undefined;
  /** The text of that version. */
  #text: string | undefined;
  #state: ConfigState = "loading";
  #confirmedAt = performance.now();
  #isHeard = false;
  #isReading = false;
  #isWanted = false;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #failure: KitError | undefined;
  /** The refused entry, and the reason. */
  #refused:
    | { readonly version: string; readonly text: string; readonly error: ConfigInvalidError; readonly isFinal: boolean }
    | undefined;
  /** A version that cannot follow the known one: it is read a second time before it is taken. */
  #suspect: string | undefined;
  #isMissing = false;
  readonly #missing: ConfigMissingError;

  readonly #onContent: ((content: Content<Value>) => void) | undefined;

  /** Made by this package only. */
  constructor(
    store: Store,
    schema: StandardSchema<unknown, Value> | undefined,
    initial: string | undefined,
    onContent?: (content: Content<Value>) => void,
  ) {
    super();
    this.#onContent = onContent;
    this.name = store.name;
    this.#missing = new ConfigMissingError(this.name);
    this.#store = store;
    this.#life = store.life;
    this.#schema = schema;
    this.#default = initial;
    // A log of a configuration shows its name, not its content.
    Object.defineProperty(this, inspect.custom, {
      value: () => `Config ${JSON.stringify(this.name)} (${this.#state})`,
    });
    const { executor, inbox } = store.context;
    this.#life.onClosed(
      inbox.listen(store.channel, {
        message: () => this.#want(),
        state: (state) => {
          this.#isHeard = state !== "down";
          if (this.#isHeard) this.#want();
          else this.#stale("the subscription is lost");
        },
      }),
      executor.onReady(() => {
        // Behind it may be another server now, and the subscription still with the old one, which says nothing.
        void inbox.check();
        this.#want();
      }),
      executor.onDrop(() => {
        this.#stale("the connection is lost");
        this.#want();
      }),
    );
    this.#again(Math.min(graceMs, store.settings.deadlineMs / 2));
  }

  /**
   * The value: frozen, and without a round trip.
   *
   * @throws {ConfigMissingError} there is none yet.
   */
  get current(): Value {
    if (!this.#content) throw new ConfigMissingError(this.name);
    return this.#content.value;
  }

  get state(): ConfigState {
    return this.#state;
  }

  /** The version of `current`; undefined while that is the default, or there is none. */
  get version(): ConfigVersion | undefined {
    return this.#version;
  }

  /** How long ago the server last confirmed `current` (before the first time: since this object was made); 0 while fresh. */
  get staleMs(): number {
    return this.#state === "fresh" ? 0 : this.unconfirmedMs;
  }

  /** @internal How long ago the server last confirmed `current`, also while fresh. */
  get unconfirmedMs(): number {
    return performance.now() - this.#confirmedAt;
  }

  /**
   * Waits for the first value, and returns it; later it returns `current` at once.
   *
   * @throws {ConfigMissingError} nothing is set, there is no default, and `onMissing` is "throw"; or `waitMs` passed.
   * @throws {ConfigInvalidError} what is set is refused, and `onMissing` is "throw"; or `waitMs` passed.
   * @throws {KitUnavailableError} no server answered: within `waitMs`, or else at the first try.
   * @throws {KitError} the server's other errors, by their code. `KIT_LAYOUT`: a newer version wrote the entry.
   * @throws {KitClosedError} it was closed meanwhile.
   * @throws `signal.reason` if `signal` aborts first.
   */
  async ready(options: ReadyOptions = {}): Promise<Value> {
    const resolved = resolve("options", options, readyRules);
    await traced(
      "config.ready",
      () => ({ name: this.name }),
      () => this.#untilFound(resolved),
    );
    return this.current;
  }

  /**
   * Reads the entry from the server now, and returns its value.
   *
   * @throws {ConfigMissingError} nothing is set, and there is no default, or a value was seen before.
   * @throws {ConfigInvalidError} its value is refused, or the schema did not settle within `deadlineMs`.
   * @throws {KitClosedError} it was closed while the schema was asked.
   * @throws {KitUnavailableError | KitError} as every command.
   */
  async get(options: AskOptions = {}): Promise<Value> {
    const resolved = callSettings(options, askRules, this.#store.settings);
    const limit = this.#limit(resolved);
    return await this.#asked("config.get", async () => {
      const entry = await this.#store.read(resolved);
      if (textOf(entry?.version) !== textOf(this.#version)) this.#want();
      if (entry) return (await contentOf(this.name, this.#schema, entry.text, limit)).value;
      if (this.#default === undefined || this.#version) throw new ConfigMissingError(this.name);
      return (await contentOf(this.name, this.#schema, this.#default, limit)).value;
    });
  }

  /**
   * Writes a value and returns its version; `current` is the new value then. The value is stored as JSON, and the schema checks
   * that JSON as it reads back. A call with `op` leaves `current` to the next read.
   *
   * @throws {ConfigConflictError} another version than `expected` is stored; nothing was changed.
   * @throws {ConfigInvalidError} the schema refuses it, or did not settle within `deadlineMs`, or it is no JSON; nothing
   *   was sent.
   * @throws {KitClosedError} it was closed while the schema was asked; nothing was sent.
   * @throws {KitUnknownOutcomeError} its reply is lost; call again with its `op`.
   * @throws {KitUnavailableError | KitError} as every command.
   */
  async set(value: Input, options: SetOptions = {}): Promise<ConfigVersion> {
    const resolved = callSettings(options, setRules, this.#store.settings);
    return await this.#asked("config.set", () => this.#write(value, resolved));
  }

  /**
   * The last writes, the newest first. Damaged lines are left out.
   *
   * @throws {KitUnavailableError | KitError} as every command.
   */
  async history(options: HistoryOptions = {}): Promise<readonly ConfigRevision[]> {
    const { limit, ...resolved } = callSettings(options, historyRules, this.#store.settings);
    return await this.#asked("config.history", async () => {
      const kept = await this.#store.history(limit, resolved);
      const read = await Promise.allSettled(
        kept.map(async ({ version, author, text }) => {
          const { value } = await contentOf(this.name, undefined, text);
          return Object.freeze({ ...version, author, value });
        }),
      );
      return read.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    });
  }

  /**
   * Writes the value of an earlier revision again, and returns the new version. After lost data several writes may have that
   * number: the newest counts.
   *
   * @throws {ConfigMissingError} the history does not have it.
   * @throws all that {@link set} throws.
   */
  async rollback(revision: number, options: SetOptions = {}): Promise<ConfigVersion> {
    const resolved = callSettings(options, setRules, this.#store.settings);
    const deadline = Deadline.in(resolved.deadlineMs);
    return await this.#asked("config.rollback", async () => {
      const kept = await this.#store.history(mostHistory, resolved);
      const found = kept.find(({ version }) => version.revision === revision);
      if (!found) throw new ConfigMissingError(this.name, revision);
      const deadlineMs = Math.max(1, Math.ceil(deadline.remainingMs));
      return await this.#write(parseJson(this.name, found.text) as Input, { ...resolved, deadlineMs });
    });
  }

  /**
   * Stops following the entry. Calls that wait in `ready()` or for an asynchronous schema reject with KitClosedError; commands
   * under way are waited for. `current` keeps its value, and its state becomes `stale`. The client is not touched.
   * Idempotent; never rejects.
   */
  async close(): Promise<void> {
    await this.#life.close({}, () => this.#close());
  }

  /** `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(): Promise<void> {
    this.#life.cancel();
    clearTimeout(this.#timer);
    this.#waiters.failed(this.#life.closedError());
    this.#stale("it is closed");
    // Each command ends by its own deadline.
    await this.#life.untilIdle(new Deadline(Infinity));
  }

  /** How long a call waits for the schema. */
  #limit({ deadlineMs, signal }: Question): Limit & { readonly deadline: Deadline } {
    return { deadline: Deadline.in(deadlineMs), signal: [signal, this.#life.signal] };
  }

  /** One operation of a caller. Its result is not shown to tracing: it may be secret. */
  #asked<T>(operation: string, work: () => Promise<T>): Promise<T> {
    return this.#life.privateCall(operation, () => ({ name: this.name }), work);
  }

  async #untilFound(resolved: ReadyOptions): Promise<void> {
    if (this.#content) return;
    this.#life.assertOpen();
    // An earlier problem may be mended by now.
    if (this.#failure) this.#want();
    const outlasts = (error: KitError): boolean =>
      (this.#store.settings.waitsForMissing && isAboutContent(error)) ||
      (resolved.waitMs !== undefined && error.retryable && !(error instanceof ConfigMissingError));
    const late = (): KitError =>
      this.#failure ?? noAnswer(this.#store.context.client, `configuration ${JSON.stringify(this.name)} was not read`);
    await this.#waiters.wait(limitOf(resolved), outlasts, late);
  }

  async #write(value: Input, resolved: ResolvedWrite): Promise<ConfigVersion> {
    const text = jsonOf(this.name, value, this.#store.settings.maxBytes);
    const limit = this.#limit(resolved);
    const content = await contentOf(this.name, this.#schema, text, limit);
    const deadlineMs = Math.max(1, Math.ceil(limit.deadline.remainingMs));
    const sentAt = performance.now();
    const { isWritten, version } = await this.#store.write(text, { ...resolved, deadlineMs });
    if (!isWritten || !version) {
      this.#want();
      throw new ConfigConflictError(this.name, version);
    }
    const known = this.#version;
    const isNewer = !known || this.#isMissing || succeeds(version, known);
    // The write of a given `op` may have had another value, and be long ago.
    if (resolved.op === undefined && isNewer && !this.#life.isClosed) this.#accept(content, version, text, sentAt);
    else this.#want();
    return version;
  }

  /** One read is under way at a time; a request that comes meanwhile gets another read after it. */
  #want(): void {
    if (this.#life.isClosed) return;
    this.#isWanted = true;
    if (!this.#isReading) void this.#read();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    clearTimeout(this.#timer);
    const { deadlineMs } = this.#store.settings;
    const { signal } = this.#life;
    while (this.#isWanted && !this.#life.isClosed) {
      this.#isWanted = false;
      const sentAt = performance.now();
      try {
        const entry = await this.#store.read({ deadlineMs, signal });
        if (!this.#life.isClosed) await this.#take(entry, sentAt);
        this.#failures = 0;
      } catch (error) {
        if (!this.#life.isClosed) this.#fail(error);
      }
    }
    this.#isReading = false;
    if (this.#life.isClosed) return;
    const { pollMs, longestPollMs } = this.#store.settings;
    const capMs = this.#failure?.retryable === true ? outageCapMs : refusalCapMs;
    const retryMs = retryBaseMs / 2 + backoffMs(this.#failures + 1, retryBaseMs, capMs);
    const nextMs = this.#failures > 0 ? Math.min(retryMs, pollMs) : pollMs * (0.5 + Math.random());
    this.#again(Math.min(nextMs, longestPollMs));
  }

  #again(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      // A subscription that went silent shows in nothing but an unanswered question.
      if (this.#isHeard) void this.#store.context.inbox.check();
      this.#want();
    }, ms);
    // A process with nothing else to do may exit.
    this.#timer.unref();
  }

  async #take(entry: StoredEntry | undefined, sentAt: number): Promise<void> {
    if (!entry) return await this.#takeNothing(sentAt);
    const known = this.#version;
    const text = versionText(entry.version);
    const isSame = known !== undefined && text === versionText(known);
    // Somebody may have changed the value alone, by hand.
    if (isSame && entry.text === this.#text) return this.#confirm(sentAt);
    const isLost = known !== undefined && !isSame && !this.#isMissing && !succeeds(entry.version, known);
    if (isLost && this.#suspect !== text) {
      this.#suspect = text;
      this.#isWanted = true;
      return;
    }
    const content = await this.#validated(text, entry.text);
    if (!content || this.#life.isClosed) return;
    if (isLost) this.emit("error", new ConfigLostError(this.name, known, entry.version));
    this.#accept(content, entry.version, entry.text, sentAt);
  }

  /** The version to take; undefined: it was refused, or is older than the current one. */
  async #validated(version: string, text: string): Promise<Content<Value> | undefined> {
    const isKnown = this.#refused?.version === version && this.#refused.text === text;
    const before = isKnown ? this.#refused : undefined;
    if (before?.isFinal) {
      this.#refuse(before.error);
      return undefined;
    }
    const known = this.#version;
    const limit = this.#limit({ deadlineMs: this.#store.settings.deadlineMs, signal: undefined });
    let content: Content<Value> | undefined;
    let refused: ConfigInvalidError | undefined;
    try {
      content = await contentOf(this.name, this.#schema, text, limit);
    } catch (error) {
      if (!(error instanceof ConfigInvalidError)) throw error;
      refused = error;
    }
    // A write of our own was quicker than the schema.
    if (this.#version !== known) {
      this.#isWanted = true;
      return undefined;
    }
    if (refused && !this.#life.isClosed) {
      // A schema that was too slow may be quicker the next time; until then that is no news.
      const isFinal = limit.deadline.remainingMs > 1;
      const error = isFinal ? refused : (before?.error ?? refused);
      this.#refused = { version, text, error, isFinal };
      this.#refuse(error);
    }
    return content;
  }

  async #takeNothing(sentAt: number): Promise<void> {
    if (this.#version || this.#default === undefined) {
      this.#isMissing = true;
      return this.#refuse(this.#missing);
    }
    if (this.#content) return this.#confirm(sentAt);
    const content = await this.#validated("default", this.#default);
    if (content && !this.#life.isClosed) this.#accept(content, undefined, undefined, sentAt);
  }

  #accept(content: Content<Value>, version: ConfigVersion | undefined, text: string | undefined, sentAt: number): void {
    const previous = this.#content;
    const isOther = previous?.canonical !== content.canonical;
    if (isOther) this.#content = content;
    this.#version = version;
    this.#text = text;
    this.#confirm(sentAt);
    if (isOther) {
      this.#onContent?.(content);
      this.emit("change", content.value, previous?.value);
    }
    this.#waiters.found();
  }

  /** Our version is the server's as of `sentAt`, or newer. */
  #confirm(sentAt: number): void {
    this.#confirmedAt = sentAt;
    this.#isMissing = false;
    this.#refused = undefined;
    this.#suspect = undefined;
    this.#failure = undefined;
    // The change that made it stale came after this answer.
    if (this.#state === "stale" && this.#isWanted) return;
    if (this.#isHeard) this.#become("fresh", "the server confirmed it");
    else this.#become("stale", "changes are not pushed at the moment");
  }

  /** The entry is not what we may take: the last good value stays. */
  #refuse(error: KitError): void {
    if (this.#content) this.#become("degraded", error.message);
    this.#report(error);
  }

  #fail(cause: unknown): void {
    const error = asKitError(cause, `Reading configuration ${JSON.stringify(this.name)}`);
    if (isAboutContent(error) || error.code === "KIT_LAYOUT" || error.code === "KIT_KEY_TYPE") {
      this.#refuse(error);
      return;
    }
    this.#failures++;
    this.#stale(error.message);
    this.#report(error);
  }

  #report(error: KitError): void {
    // Of an outage each try says something else.
    const isNews = this.#failure?.code !== error.code || (isAboutContent(error) && this.#failure !== error);
    this.#failure = error;
    if (isNews) this.emit("error", error);
    this.#waiters.failed(error);
  }

  #stale(why: string): void {
    if (this.#state === "fresh") this.#become("stale", why);
  }

  #become(state: ConfigState, why: string): void {
    if (this.#state === state) return;
    this.#state = state;
    this.emit("state", state, why);
  }
}

const textOf = (version: ConfigVersion | undefined): string | undefined => version && versionText(version);

/** Whether `version` can have been written after `known`. */
const succeeds = (version: ConfigVersion, known: ConfigVersion): boolean =>
  version.epoch === known.epoch && version.revision > known.revision;

/** Errors about the value, not about reaching the server. */
const isAboutContent = (error: KitError): boolean =>
  error instanceof ConfigMissingError || error instanceof ConfigInvalidError;

/**
 * Follows the entry `name`: its value is read without a round trip, and each change arrives by push. A push can be lost, so
 * the entry is also read after every reconnection and every `pollMs`.
 *
 * Close it with `close()`, or `await using`.
 *
 * @throws {TypeError | RangeError} an option, the default or the client is not what it should be.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const search = createConfig(redis, "search", { default: { limit: 20 } });
 * await search.ready();
 * search.current.limit; // 20
 */
export function createConfig<Input, Value>(
  redis: RedisLike,
  name: string,
  options: ConfigOptions<Input, Value> & { readonly schema: StandardSchema<Input, Value> },
): Config<Value, Input>;
export function createConfig<Value = unknown>(
  redis: RedisLike,
  name: string,
  options?: ConfigOptions<Value> & { readonly schema?: undefined },
): Config<Value>;
export function createConfig<Value, Input>(
  redis: RedisLike,
  name: string,
  options: ConfigOptions<Input, Value> = {},
): Config<Value, Input> {
  const settings = configSettings(options);
  const { schema, default: initial } = options;
  const text = initial === undefined ? undefined : jsonOf(name, initial, settings.maxBytes);
  return new Config(new Store(redis, name, settings), schema, text);
}
