import {
  backoffMs,
  boolean,
  custom,
  Deadline,
  integer,
  integerOption,
  pause,
  required,
  resolve,
  type RulesOf,
  text,
  textOption,
} from "../toolkit/index.js";
import { KitError, KitUnknownOutcomeError, type RedisLike } from "../index.js";
import { TypedEmitter } from "../toolkit/index.js";
import { ConfigCommands } from "./commands.js";
import { Config } from "./config.js";
import { ConfigConflictError, ConfigInvalidError } from "./errors.js";
import type { ConfigState } from "./follower.js";
import {
  type AskOptions,
  askRules,
  callSettings,
  configSettings,
  type ReadyOptions,
  setRules,
  type WatchOptions,
  watchRules,
} from "./options.js";
import { contentOf, ownSchema } from "./schema.js";

/** The declaration of a flag. */
export interface FlagDefinition {
  /**
   * Whether the flag is on while its state is unknown: before the first read, and when the last read is more than `maxStaleMs` ago.
   */
  readonly whenUnknown: boolean;
}

const definitionRules = { whenUnknown: required(boolean()) } satisfies RulesOf<FlagDefinition>;

/** Options of `createFlags()`. */
export interface FlagsOptions extends WatchOptions {
  /**
   * How long a flag counts as known after the server last confirmed it, in milliseconds: at least 200. After that `isOn()` returns
   * `whenUnknown`. kit reads the flags at least twice within this time. Undefined: forever.
   *
   * @default undefined
   */
  readonly maxStaleMs?: number | undefined;
}

const flagsRules = {
  ...watchRules,
  maxStaleMs: integer(200, undefined, Infinity),
} satisfies RulesOf<FlagsOptions>;

/** The state of a flag. */
export interface Flag {
  readonly on: boolean;
  /** Why it was switched, for people. */
  readonly reason: string | undefined;
  /** When someone expects to switch the flag back, in epoch milliseconds. kit does not switch it. */
  readonly until: number | undefined;
  /** Whether `on` comes from the server. If false, `on` is `whenUnknown`. */
  readonly isKnown: boolean;
}

/** How to switch a flag. */
export interface SetFlagOptions extends AskOptions {
  /** Why the flag is switched, for people: up to 500 characters. */
  readonly reason?: string | undefined;
  /** When you expect to switch the flag back: a Date, or epoch milliseconds. kit does not switch it. */
  readonly until?: Date | number | undefined;
  /**
   * A label for people: the person or process that switches the flag.
   *
   * @default host name and process id
   */
  readonly author?: string | undefined;
}

const setFlagRules = {
  ...askRules,
  reason: text(500),
  until: custom((name, until: Date | number) => integerOption(name, Number(until), 0)),
  author: setRules.author,
} satisfies RulesOf<SetFlagOptions>;

/** Events of flags. */
export interface FlagsEvents<Name extends string> {
  /** A flag became known, or changed. */
  readonly change: readonly [name: Name, flag: Flag];
  /** The same as a configuration's `state` event. */
  readonly state: readonly [state: ConfigState, why: string];
  /** The same as a configuration's `error` event. */
  readonly error: readonly [error: KitError];
}

interface StoredFlag {
  readonly on: boolean;
  readonly reason?: string;
  readonly until?: number;
}
type StoredFlags = Readonly<Record<string, StoredFlag>>;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Also validates flags that only other processes define. A text such as `"false"` is rejected. */
const issuesOf = (name: string, flag: unknown): { message: string; path: string[] }[] => {
  if (!isRecord(flag)) return [{ message: "must be an object", path: [name] }];
  const { on, reason, until, ...rest } = flag;
  const issues = Object.keys(rest).map((key) => ({ message: "is an unknown name", path: [name, key] }));
  if (typeof on !== "boolean") issues.push({ message: "must be a boolean", path: [name, "on"] });
  if (reason !== undefined && typeof reason !== "string")
    issues.push({ message: "must be a string", path: [name, "reason"] });
  if (until !== undefined && typeof until !== "number")
    issues.push({ message: "must be epoch milliseconds", path: [name, "until"] });
  return issues;
};

const schema = ownSchema<StoredFlags>((value) => {
  if (!isRecord(value)) return { issues: [{ message: "must be an object" }] };
  const issues = Object.entries(value).flatMap(([name, flag]) => issuesOf(name, flag));
  return issues.length > 0 ? { issues } : { value: value as StoredFlags };
});

/**
 * On/off flags that many processes read, such as a maintenance mode. Create them with {@link createFlags}. All flags are stored in
 * one configuration entry, `flags`. A flag that was never set is off.
 */
export class Flags<Name extends string> extends TypedEmitter<FlagsEvents<Name>> implements AsyncDisposable {
  readonly #commands: ConfigCommands;
  readonly #config: Config<StoredFlags>;
  readonly #maxStaleMs: number;
  readonly #unknown = new Map<string, Flag>();
  readonly #known = new Map<string, Flag>();

  /** For this package only. */
  constructor(redis: RedisLike, definitions: Readonly<Record<Name, FlagDefinition>>, options: FlagsOptions) {
    super();
    const { maxStaleMs, ...watching } = resolve("options", options, flagsRules);
    this.#maxStaleMs = maxStaleMs;
    for (const [name, definition] of Object.entries<FlagDefinition>(definitions)) {
      textOption("definitions", name, 128);
      const { whenUnknown } = resolve(name, definition, definitionRules);
      this.#unknown.set(name, flagOf({ on: whenUnknown }, false));
    }
    const settings = { ...configSettings(watching), longestPollMs: this.#maxStaleMs / 2 };
    this.#commands = new ConfigCommands(redis, "flags", settings);
    this.#config = new Config(this.#commands, schema, "{}");
    this.#config.on("change", (next) => this.#take(next));
    this.#config.on("state", (...facts) => this.emit("state", ...facts));
    this.#config.on("error", (error) => this.emit("error", error));
  }

  /** The state of the entry `flags`, as in a configuration. */
  get state(): ConfigState {
    return this.#config.state;
  }

  /** How long ago the server last confirmed the flags, in milliseconds; 0 while `state` is `fresh`. */
  get staleMs(): number {
    return this.#config.staleMs;
  }

  /**
   * Whether a flag is on. Needs no round trip.
   *
   * @throws {RangeError} `createFlags()` did not receive this name.
   */
  isOn(name: Name): boolean {
    return this.get(name).on;
  }

  /**
   * The state of a flag. Needs no round trip.
   *
   * @throws {RangeError} `createFlags()` did not receive this name.
   */
  get(name: Name): Flag {
    const flag = this.#isKnown() ? this.#known.get(name) : this.#unknown.get(name);
    if (!flag) throw new RangeError(`Unknown flag ${JSON.stringify(name)}: pass its name to createFlags()`);
    return flag;
  }

  /**
   * Waits until the flags are known. You don't need to wait: until then, each flag has its `whenUnknown` value.
   *
   * @throws the errors of a configuration's `ready()`.
   */
  async ready(options: ReadyOptions = {}): Promise<void> {
    await this.#config.ready(options);
  }

  /**
   * Switches a flag, and leaves the others unchanged. If the entry is damaged, the others get the state that this process last
   * read. Without `reason` or `until`, the stored one is removed.
   *
   * @throws {KitUnavailableError | KitUnknownOutcomeError | KitError} as for every command. You can repeat the call.
   * @throws {ConfigConflictError} other writes came first at every try within `deadlineMs`.
   * @throws {TypeError | RangeError} an option is invalid.
   */
  async set(name: Name, on: boolean, options: SetFlagOptions = {}): Promise<void> {
    if (!this.#unknown.has(name)) this.get(name);
    boolean().check("on", on);
    const settings = callSettings(options, setFlagRules, this.#commands.settings);
    const { deadlineMs, signal, author, reason, until } = settings;
    const flag = { on, ...(reason === undefined ? {} : { reason }), ...(until === undefined ? {} : { until }) };
    const deadline = Deadline.in(deadlineMs);
    for (let attempt = 1; ; attempt++) {
      const remainingMs = Math.max(1, Math.ceil(deadline.remainingMs));
      const entry = await this.#commands.read({ deadlineMs: remainingMs, signal });
      const stored = entry ? await this.#flagsIn(entry.text) : {};
      try {
        const expected = entry?.version ?? null;
        await this.#config.set({ ...stored, [name]: flag }, { expected, author, deadlineMs: remainingMs, signal });
        return;
      } catch (error) {
        // This call takes no `op`, and the flag is the same after a repeat.
        if (error instanceof KitUnknownOutcomeError)
          throw new KitUnknownOutcomeError(
            `Flag ${name} was sent, but the reply was lost: the flag may or may not have changed. Set it again`,
            undefined,
            error.cause,
            true,
          );
        const waitMs = backoffMs(attempt + 1, 2, 50);
        if (!(error instanceof ConfigConflictError) || deadline.remainingMs <= waitMs) throw error;
        await pause(waitMs, signal);
      }
    }
  }

  /** Stops following the flags. Your client stays open. Idempotent; never rejects. */
  async close(): Promise<void> {
    await this.#config.close();
  }

  /** The same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The flags in an entry. With a damaged entry an operator can still switch on maintenance. */
  async #flagsIn(text: string): Promise<StoredFlags> {
    try {
      return (await contentOf("flags", schema, text)).value;
    } catch (error) {
      if (!(error instanceof ConfigInvalidError)) throw error;
      return this.#config.state === "loading" ? {} : this.#config.current;
    }
  }

  #isKnown(): boolean {
    // Also while the state is `fresh`: nothing reports that a server fell silent.
    const { state, unconfirmedMs } = this.#config;
    return state !== "loading" && unconfirmedMs <= this.#maxStaleMs;
  }

  #take(stored: StoredFlags): void {
    const changed: [Name, Flag][] = [];
    for (const name of this.#unknown.keys()) {
      const flag = flagOf(Object.hasOwn(stored, name) ? (stored[name] as StoredFlag) : { on: false }, true);
      const before = this.#known.get(name);
      this.#known.set(name, flag);
      if (before?.on !== flag.on || before.reason !== flag.reason || before.until !== flag.until)
        changed.push([name as Name, flag]);
    }
    for (const [name, flag] of changed) this.emit("change", name, flag);
  }
}

const flagOf = ({ on, reason, until }: StoredFlag, isKnown: boolean): Flag =>
  Object.freeze({ on, reason, until, isKnown });

/**
 * Follows flags. `definitions` names each flag, with its value while its state is unknown.
 *
 * Close the flags with `close()`, or declare them with `await using`.
 *
 * @throws {TypeError | RangeError} an option, a definition or the client is invalid.
 *
 * @example
 * const flags = createFlags(redis, { maintenance: { whenUnknown: false } });
 * if (flags.isOn("maintenance")) sorry(flags.get("maintenance").reason);
 */
export const createFlags = <Name extends string>(
  redis: RedisLike,
  definitions: Readonly<Record<Name, FlagDefinition>>,
  options: FlagsOptions = {},
): Flags<Name> => new Flags(redis, definitions, options);
