import { inspect } from "node:util";
import type { KitError, RedisLike } from "../index.js";
import { Deadline, resolve, traced, TypedEmitter } from "../toolkit/index.js";
import { ConfigCommands } from "./commands.js";
import { ConfigConflictError, ConfigMissingError } from "./errors.js";
import { type ConfigState, Follower } from "./follower.js";
import {
  type AskOptions,
  askRules,
  callSettings,
  type ConfigOptions,
  configSettings,
  type HistoryOptions,
  historyRules,
  mostHistory,
  type ReadyOptions,
  readyRules,
  type ResolvedWrite,
  type SetOptions,
  setRules,
} from "./options.js";
import { type Content, contentOf, jsonOf, parseJson, type StandardSchema } from "./schema.js";
import { type ConfigVersion, versionText } from "./scripts.js";

/** Events of a configuration. */
export interface ConfigEvents<Value> {
  /** The content changed. For the first value, `previous` is undefined. */
  readonly change: readonly [next: Value, previous: Value | undefined];
  /** The state changed. `why` is for people. */
  readonly state: readonly [state: ConfigState, why: string];
  /**
   * A background read failed: ConfigMissingError, ConfigInvalidError, ConfigLostError, or an error of the server. Emitted when the
   * failure starts, not at each try.
   */
  readonly error: readonly [error: KitError];
}

/** A write in the history. */
export interface ConfigRevision extends ConfigVersion {
  readonly author: string;
  /** The value as written: plain JSON, not validated again. */
  readonly value: unknown;
}

/**
 * One named value in Redis that this process follows. You read it without a round trip, and change it with compare-and-set. Create
 * it with {@link createConfig}.
 *
 * `current` stays until the next valid value arrives, even if the server is down or the entry is deleted. `state` and `staleMs`
 * show that it is old.
 */
export class Config<Value = unknown, Input = Value>
  extends TypedEmitter<ConfigEvents<Value>>
  implements AsyncDisposable
{
  readonly name: string;
  readonly #commands: ConfigCommands;
  readonly #schema: StandardSchema<unknown, Value> | undefined;
  readonly #default: string | undefined;
  readonly #follower: Follower<Value>;

  /** For this package only. `initial`: the default, as JSON. */
  constructor(
    commands: ConfigCommands,
    schema: StandardSchema<unknown, Value> | undefined,
    initial: string | undefined,
    onContent?: (content: Content<Value>) => void,
  ) {
    super();
    this.name = commands.name;
    this.#commands = commands;
    this.#schema = schema;
    this.#default = initial;
    // A log of a configuration shows its name, not its content.
    Object.defineProperty(this, inspect.custom, {
      value: () => `Config ${JSON.stringify(this.name)} (${this.state})`,
    });
    this.#follower = new Follower(commands, schema, initial, {
      changed: (content, previous) => {
        onContent?.(content);
        this.emit("change", content.value, previous?.value);
      },
      became: (state, why) => this.emit("state", state, why),
      failed: (error) => this.emit("error", error),
    });
  }

  /**
   * The value, frozen. Needs no round trip.
   *
   * @throws {ConfigMissingError} there is no value yet.
   */
  get current(): Value {
    const { content } = this.#follower;
    if (!content) throw new ConfigMissingError(this.name);
    return content.value;
  }

  get state(): ConfigState {
    return this.#follower.state;
  }

  /** The version of `current`. Undefined if `current` is the default, or there is no value. */
  get version(): ConfigVersion | undefined {
    return this.#follower.version;
  }

  /**
   * How long ago the server last confirmed `current`, in milliseconds; 0 while `state` is `fresh`. Before the first confirmation,
   * the age of this object.
   */
  get staleMs(): number {
    return this.state === "fresh" ? 0 : this.unconfirmedMs;
  }

  /** @internal How long ago the server last confirmed `current`, even while fresh. */
  get unconfirmedMs(): number {
    return this.#follower.unconfirmedMs;
  }

  /**
   * Waits for the first value and returns it. Once there is a value, returns `current` immediately.
   *
   * @throws {ConfigMissingError} no value is set, and there is no default. With `onMissing: "wait"`, it rejects only after
   *   `waitMs`.
   * @throws {ConfigInvalidError} the stored value is invalid. With `onMissing: "wait"`, it rejects only after `waitMs`.
   * @throws {KitUnavailableError} no server answered within `waitMs`. Without `waitMs`, the first try decides.
   * @throws {KitError} the server's other errors, with their codes. `KIT_LAYOUT`: a newer version wrote the entry.
   * @throws {KitClosedError} the configuration was closed during the call.
   * @throws `signal.reason` if `signal` aborts first.
   */
  async ready(options: ReadyOptions = {}): Promise<Value> {
    const resolved = resolve("options", options, readyRules);
    await traced(
      "config.ready",
      () => ({ name: this.name }),
      () => this.#follower.untilFound(resolved),
    );
    return this.current;
  }

  /**
   * Reads the entry from the server now, and returns its value.
   *
   * @throws {ConfigMissingError} no value is set and there is no default, or an earlier value was deleted.
   * @throws {ConfigInvalidError} the stored value is invalid, or the schema did not settle within `deadlineMs`.
   * @throws {KitClosedError} the configuration was closed while the schema ran.
   * @throws {KitUnavailableError | KitError} as for every command.
   */
  async get(options: AskOptions = {}): Promise<Value> {
    const resolved = callSettings(options, askRules, this.#commands.settings);
    const limit = this.#commands.limit(resolved);
    return await this.#call("config.get", async () => {
      const entry = await this.#commands.read(resolved);
      if (textOf(entry?.version) !== textOf(this.version)) this.#follower.want();
      if (entry) return (await contentOf(this.name, this.#schema, entry.text, limit)).value;
      if (this.#default === undefined || this.version) throw new ConfigMissingError(this.name);
      return (await contentOf(this.name, this.#schema, this.#default, limit)).value;
    });
  }

  /**
   * Writes a value and returns its version. After that, `current` is the new value. The value is stored as JSON, and the schema
   * validates what that JSON parses to. If you pass `op`, `current` changes only with the next read.
   *
   * @throws {ConfigConflictError} the stored version is not `expected`; nothing was changed.
   * @throws {ConfigInvalidError} the schema rejects the value or did not settle within `deadlineMs`, or the value is not JSON;
   * nothing was sent.
   * @throws {KitClosedError} the configuration was closed while the schema ran; nothing was sent.
   * @throws {KitUnknownOutcomeError} the reply was lost; call again with this error's `op`. Without the `op`, the call would write
   * again, perhaps over another process's write.
   * @throws {KitUnavailableError | KitError} as for every command.
   */
  async set(value: Input, options: SetOptions = {}): Promise<ConfigVersion> {
    const resolved = callSettings(options, setRules, this.#commands.settings);
    return await this.#call("config.set", () => this.#write(value, resolved));
  }

  /**
   * The last writes, newest first. If the values are large, it returns only the newest, up to about 4 MiB. Damaged entries are left
   * out.
   *
   * @throws {KitUnavailableError | KitError} as for every command.
   */
  async history(options: HistoryOptions = {}): Promise<readonly ConfigRevision[]> {
    const { limit, ...resolved } = callSettings(options, historyRules, this.#commands.settings);
    return await this.#call("config.history", async () => {
      const kept = await this.#commands.history(limit, "", resolved);
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
   * Writes the value of an earlier revision again, and returns the new version. If several writes have this revision number after
   * data loss, kit uses the newest.
   *
   * @throws {ConfigMissingError} the history does not have this revision.
   * @throws all that {@link set} throws.
   */
  async rollback(revision: number, options: SetOptions = {}): Promise<ConfigVersion> {
    const resolved = callSettings(options, setRules, this.#commands.settings);
    const deadline = Deadline.in(resolved.deadlineMs);
    return await this.#call("config.rollback", async () => {
      const [found] = await this.#commands.history(mostHistory, revision, resolved);
      if (!found) throw new ConfigMissingError(this.name, revision);
      const deadlineMs = Math.max(1, Math.ceil(deadline.remainingMs));
      return await this.#write(parseJson(this.name, found.text) as Input, { ...resolved, deadlineMs });
    });
  }

  /**
   * Stops following the entry. Calls that wait in `ready()` or for an asynchronous schema reject with KitClosedError. `close()`
   * waits for commands in flight. `current` keeps its value, and its state becomes `stale`. Your client stays open. Idempotent;
   * never rejects.
   */
  async close(): Promise<void> {
    const { life } = this.#commands;
    await life.close({}, async () => {
      life.cancel();
      this.#follower.close();
      // Each command ends by its own deadline.
      await life.untilIdle(new Deadline(Infinity));
    });
  }

  /** The same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Runs one operation for a caller. Its result is hidden from tracing, because it may be secret. */
  #call<T>(operation: string, work: () => Promise<T>): Promise<T> {
    return this.#commands.life.privateCall(operation, () => ({ name: this.name }), work);
  }

  async #write(value: Input, resolved: ResolvedWrite): Promise<ConfigVersion> {
    const text = jsonOf(this.name, value, this.#commands.settings.maxBytes);
    const limit = this.#commands.limit(resolved);
    const content = await contentOf(this.name, this.#schema, text, limit);
    const deadlineMs = Math.max(1, Math.ceil(limit.deadline.remainingMs));
    const sentAt = performance.now();
    const { isWritten, version } = await this.#commands.write(text, { ...resolved, deadlineMs });
    if (!isWritten || !version) {
      this.#follower.want();
      throw new ConfigConflictError(this.name, version);
    }
    // The first write with this `op` may have had another value, and may be long ago.
    if (resolved.op === undefined) this.#follower.written(content, version, text, sentAt);
    else this.#follower.want();
    return version;
  }
}

const textOf = (version: ConfigVersion | undefined): string | undefined => version && versionText(version);

/**
 * Follows the entry `name`. You read its value without a round trip. The server pushes each change. Because a push can be lost, kit
 * also reads the entry every `pollMs` and after every reconnection.
 *
 * Close the configuration with `close()`, or declare it with `await using`.
 *
 * @throws {TypeError | RangeError} an option, the default or the client is invalid.
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
  return new Config(new ConfigCommands(redis, name, settings), schema, text);
}
