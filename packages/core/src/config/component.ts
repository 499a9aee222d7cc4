import { type Connection, KitClosedError, KitError, type RedisLike } from "../index.js";
import type { Limit } from "../kernel/index.js";
import {
  backoffMs,
  boolean,
  custom,
  integer,
  resolve as settingsOf,
  type RulesOf,
  traced,
  TypedEmitter,
} from "../toolkit/index.js";
import { ConfigCommands } from "./commands.js";
import {
  checkConnection,
  closeConnection,
  type ComponentEntry,
  entrySchema,
  isPrivate,
  openConnection,
  type OpenContext,
} from "./component-entry.js";
import { Connections, type ConnectionSettings, type Generation } from "./connections.js";
import { Config } from "./config.js";
import { ComponentRefusedError } from "./errors.js";
import {
  configSettings,
  type ReadyOptions,
  readyRules,
  schemaOption,
  type WatchOptions,
  watchRules,
} from "./options.js";
import { type Content, type StandardSchema } from "./schema.js";
import { limitOf, Waiters } from "./waiters.js";

/**
 * Returns a secret by its name. `url` is the address that receives the secret, or undefined if entries of your schema have no
 * `url`.
 */
export type Secrets = (
  name: string,
  target: { readonly url: string | undefined },
) => string | undefined | Promise<string | undefined>;

/** Options of every component. */
interface CommonOptions extends WatchOptions {
  /**
   * Returns the secret that the entry names, or undefined if there is none. Anyone who can write the entry chooses the name and the
   * address that receives the secret. So return each secret only for addresses that you recognize.
   *
   * @default the environment variable `KIT_SECRET_` plus the name
   */
  readonly secrets?: Secrets | undefined;
  /**
   * Whether a secret can leave this machine without TLS. If false, an entry with a `secret` must use TLS (`rediss:`,
   * `rediss+sentinel:`, `rediss+cluster:`), `unix:`, or a single server on a loopback address. With your own `schema`, this has no
   * effect: your `open` decides.
   *
   * @default false
   */
  readonly allowPlaintextSecrets?: boolean | undefined;
  /**
   * How long running calls can continue on a replaced connection, in milliseconds. After that, kit closes the connection.
   *
   * @default 10000
   */
  readonly drainMs?: number | undefined;
}

/** Options of a component whose connections come from `connect()`. */
export interface ComponentOptions extends CommonOptions {
  readonly schema?: undefined;
  readonly open?: undefined;
  readonly check?: undefined;
  readonly close?: undefined;
}

/** Options of a component with connections of any kind. */
export interface CustomComponentOptions<Conn, Input = ComponentEntry, Entry = Input> extends CommonOptions {
  /**
   * The schema of an entry: any Standard Schema.
   *
   * @default the schema of `ComponentEntry`
   */
  readonly schema?: StandardSchema<Input, Entry> | undefined;
  /**
   * Opens the connection that an entry describes. If it throws, the entry is rejected. If the error is not a KitError, kit
   * keeps only its name and code.
   */
  readonly open: (entry: NoInfer<Entry>, context: OpenContext) => Conn | Promise<Conn>;
  /** Checks a new connection before any call uses it. Throw to reject the connection. */
  readonly check?: ((connection: NoInfer<Conn>) => unknown) | undefined;
  /** Ends a connection. If `isForced` is true, end it without delay: calls on it are still running, or it was never used. */
  readonly close: (connection: NoInfer<Conn>, isForced: boolean) => unknown;
}

/** Events of a component. */
export interface ComponentEvents {
  /** A new connection has replaced the old one for new calls. Not emitted for the first connection. */
  readonly swap: readonly [event: { readonly generation: number }];
  /**
   * An entry was rejected. kit keeps the old connection, and tries to open the new one again: with backoff, and after each change
   * of the entry.
   */
  readonly degraded: readonly [error: ComponentRefusedError];
  /**
   * A replaced connection was closed while calls were still running on it, because `drainMs` had passed. `calls` is their number.
   */
  readonly forced: readonly [event: { readonly generation: number; readonly calls: number }];
  /** The entry has an error, as in the configuration's `error` event, or a connection did not close. */
  readonly error: readonly [error: KitError];
}

/**
 * - `loading`: there is no connection yet
 * - `ready`: the connection is the one in the entry
 * - `degraded`: the connection is an earlier one, because the entry's connection was rejected
 */
export type ComponentState = "loading" | "ready" | "degraded";

/** A change takes effect after `quietMs` without another change, and after `settleMs` at the latest. */
const quietMs = 100;
const settleMs = 1_000;
/** The waits between tries of an entry that was rejected. */
const retryBaseMs = 250;
const retryCapMs = 15_000;
/**
 * A connection described by a configuration entry. When the entry changes, kit replaces the connection while you use it. Create it
 * with {@link createComponent}, and use it with {@link withComponent}.
 */
export class Component<Conn = Connection, Entry = ComponentEntry, Input = Entry>
  extends TypedEmitter<ComponentEvents>
  implements AsyncDisposable
{
  readonly name: string;
  /** The entry. Set it here, or with a `createConfig()` of the same name anywhere. */
  readonly config: Config<Entry, Input>;
  readonly #connections: Connections<Conn, Entry>;
  readonly #waiters = new Waiters();
  #active: Generation<Conn> | undefined;
  #wanted: Content<Entry> | undefined;
  #opening: { readonly canonical: string; readonly abort: AbortController } | undefined;
  #failure: KitError | undefined;
  #refusals = 0;
  #timer: NodeJS.Timeout | undefined;
  #unsettledSince: number | undefined;
  #closing: Promise<void> | undefined;

  /** For this package only. */
  constructor(
    commands: ConfigCommands,
    schema: StandardSchema<Input, Entry>,
    settings: ConnectionSettings<Conn, Entry>,
  ) {
    super();
    this.name = commands.name;
    this.#connections = new Connections(commands.name, settings, {
      forced: (event) => this.emit("forced", event),
      error: (error) => this.emit("error", error),
    });
    this.config = new Config<Entry, Input>(commands, schema, undefined, (content) => this.#changed(content));
    this.config.on("error", (error) => {
      if (!this.#active) this.#report(error);
      this.emit("error", error);
    });
  }

  get state(): ComponentState {
    if (!this.#active) return "loading";
    return this.#failure ? "degraded" : "ready";
  }

  /**
   * Waits for the first connection. Without `waitMs`, the first failure rejects. With `waitMs`, the wait continues through
   * failures.
   *
   * @throws {ConfigMissingError | ConfigInvalidError} the entry is not set, or is invalid.
   * @throws {ComponentRefusedError} the connection could not be opened, or failed its check.
   * @throws {KitUnavailableError | KitError} the entry cannot be read.
   * @throws {KitClosedError} the component was closed during the call.
   * @throws `signal.reason` if `signal` aborts first.
   */
  async ready(options: ReadyOptions = {}): Promise<void> {
    const resolved = settingsOf("options", options, readyRules);
    await traced(
      "component.ready",
      () => ({ name: this.name }),
      () => this.#untilOpen(limitOf(resolved)),
    );
  }

  /**
   * Ends the component. It aborts a connection that is being opened, and waits up to `drainMs` for calls in flight. Then it closes
   * the connection, within ten seconds. New calls reject with KitClosedError.
   *
   * Don't await `close()` inside a call of the component: the call cannot end, so closing takes all of `drainMs`. Idempotent; never
   * rejects.
   */
  async close(): Promise<void> {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  /** The same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Calls `fn` with the current connection, which stays open until the call ends. If kit replaces the connection during the call,
   * the old one stays open for up to `drainMs`. If there is no connection yet, it waits for the first one.
   *
   * @throws {KitError} there was no connection in time. Also throws what `fn` throws.
   */
  async use<T>(fn: (connection: Conn) => T | Promise<T>, resolved: ReadyOptions): Promise<T> {
    const limit = limitOf(resolved);
    // The connection may have been replaced or closed again before this continues.
    while (!this.#active || this.#closing) await this.#untilOpen(limit);
    const generation = this.#active;
    generation.calls++;
    try {
      return await fn(generation.connection);
    } finally {
      if (--generation.calls === 0) generation.onIdle?.();
    }
  }

  async #close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#opening?.abort.abort();
    this.#opening = undefined;
    this.#waiters.failed(new KitClosedError("The component"));
    if (this.#active) this.#connections.track(this.#connections.retire(this.#active));
    this.#active = undefined;
    await this.config.close();
    await this.#connections.ended();
  }

  async #untilOpen(limit: Limit): Promise<void> {
    if (this.#active) return;
    if (this.#closing) throw new KitClosedError("The component");
    for (const signal of [limit.signal].flat()) signal?.throwIfAborted();
    const isPatient = limit.deadline !== undefined;
    if (this.#failure && !isPatient) throw this.#failure;
    const late = (): KitError => this.#failure ?? new ComponentRefusedError(this.name, "it did not open in time");
    await this.#waiters.wait(limit, () => isPatient, late);
  }

  /**
   * Called at each change. After several quick changes only the last one takes effect. The first connection is opened immediately.
   */
  #changed(content: Content<Entry>): void {
    this.#wanted = content;
    this.#refusals = 0;
    // An earlier failure was about another entry. A component with a connection keeps its state until the new one is open.
    if (!this.#active) this.#failure = undefined;
    const now = performance.now();
    this.#unsettledSince ??= now;
    const leftMs = Math.max(0, this.#unsettledSince + settleMs - now);
    this.#later(this.#active || this.#opening ? Math.min(quietMs, leftMs) : 0);
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#settle(), ms);
    // A process with nothing else to do may exit.
    this.#timer.unref();
  }

  #settle(): void {
    this.#unsettledSince = undefined;
    const wanted = this.#wanted;
    if (!wanted || this.#closing || this.#opening?.canonical === wanted.canonical) return;
    this.#opening?.abort.abort();
    this.#opening = undefined;
    if (this.#active?.canonical === wanted.canonical) this.#recover();
    else this.#connections.track(this.#open(wanted));
  }

  async #open(content: Content<Entry>): Promise<void> {
    const opening = { canonical: content.canonical, abort: this.#connections.controller() };
    this.#opening = opening;
    const made: Conn[] = [];
    try {
      await traced(
        "component.open",
        () => ({ name: this.name }),
        async () => {
          made.push(await this.#connections.make(content.value, opening.abort));
        },
      );
    } catch (error) {
      if (this.#opening !== opening) return;
      this.#opening = undefined;
      this.#refuse(error as ComponentRefusedError);
      return;
    }
    const connection = made[0] as Conn;
    // Another entry arrived, or the component was closed.
    if (this.#opening !== opening) return await this.#connections.shut(connection, true);
    this.#opening = undefined;
    const old = this.#active;
    const number = (old?.number ?? 0) + 1;
    this.#active = { number, canonical: content.canonical, connection, calls: 0 };
    this.#recover();
    this.#waiters.found();
    if (!old) return;
    this.emit("swap", { generation: number });
    await this.#connections.retire(old);
  }

  #recover(): void {
    this.#failure = undefined;
    this.#refusals = 0;
  }

  #refuse(refusal: ComponentRefusedError): void {
    const isNews = this.#refusals === 0 || this.#failure?.message !== refusal.message;
    this.#report(refusal);
    this.#refusals++;
    this.#later(retryBaseMs / 2 + backoffMs(this.#refusals + 1, retryBaseMs, retryCapMs));
    if (isNews) this.emit("degraded", refusal);
  }

  #report(error: KitError): void {
    this.#failure = error;
    this.#waiters.failed(error);
  }
}

const functionOption = <T>(name: string, value: T): T => {
  if (typeof value !== "function") throw new TypeError(`Expected \`${name}\` to be a function, got ${typeof value}`);
  return value;
};

type Custom = CustomComponentOptions<unknown, unknown, unknown>;

const componentRules = {
  ...watchRules,
  schema: custom((name, schema: NonNullable<Custom["schema"]>) => schemaOption(name, schema)),
  open: custom((_name, open: Custom["open"]) => open),
  check: custom((_name, check: NonNullable<Custom["check"]>) => check),
  close: custom((_name, close: Custom["close"]) => close),
  secrets: custom(
    (name, secrets: NonNullable<Custom["secrets"]>) => functionOption(name, secrets),
    // Never the whole environment: the writer of the entry could then choose which variable leaves the process.
    (name) => process.env[`KIT_SECRET_${name}`],
  ),
  allowPlaintextSecrets: boolean(false),
  drainMs: integer(0, 86_400_000, 10_000),
} satisfies RulesOf<CustomComponentOptions<unknown, unknown, unknown>>;

/**
 * Follows the entry `name`, and keeps the connection that it describes. After a change, kit opens the new connection and checks
 * that it answers and is a master. Then the new connection replaces the old one. Calls that started on the old connection finish on
 * it. If there is no entry, kit opens no connection.
 *
 * Close the component with `close()`, or declare it with `await using`.
 *
 * @throws {TypeError | RangeError} an option or the client is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const logs = createComponent(redis, "logs");
 * const logRecent = withComponent(logs, (db, app: string, line: string) => db.lpush(`recent:${app}`, line));
 * await logRecent("shop", "hello");
 */
export function createComponent(redis: RedisLike, name: string, options?: ComponentOptions): Component;
export function createComponent<Conn, Input = ComponentEntry, Entry = Input>(
  redis: RedisLike,
  name: string,
  options: CustomComponentOptions<Conn, Input, Entry>,
): Component<Conn, Entry, Input>;
export function createComponent(
  redis: RedisLike,
  name: string,
  options: ComponentOptions | CustomComponentOptions<unknown, unknown, unknown> = {},
): unknown {
  const own = settingsOf("options", options, componentRules);
  const { prefix, pollMs, deadlineMs, schema = entrySchema, secrets, drainMs, allowPlaintextSecrets } = own;
  const { open, check, close } = own.open ? own : standard;
  // A custom schema has addresses of another kind.
  const mayReceive = (entry: ComponentEntry): boolean =>
    allowPlaintextSecrets || own.schema !== undefined || isPrivate(entry.url);
  functionOption("open", open);
  functionOption("close", close);
  const commands = new ConfigCommands(redis, name, configSettings({ prefix, pollMs, deadlineMs }));
  return new Component(
    commands,
    schema as StandardSchema<unknown>,
    { open, check, close, secrets, mayReceive, drainMs } as ConnectionSettings<unknown, unknown>,
  );
}

const standard = { open: openConnection, check: checkConnection, close: closeConnection };

/**
 * Wraps `fn` into a function that you call without a client. `fn` gets the component's current connection as its first argument.
 * The call keeps that connection until it ends. If kit replaces the connection during the call, the old one stays open for up to
 * `drainMs`.
 *
 * If there is no connection yet, the call waits for it, like `ready()` with the same options. The options don't limit how long `fn`
 * takes.
 *
 * @throws {TypeError | RangeError} an option is invalid. This throws immediately, not in a call.
 *
 * @example
 * const logRecent = withComponent(logs, (db, app: string, line: string) => db.lpush(`recent:${app}`, line));
 * await logRecent("shop", "hello");
 */
export const withComponent = <Conn, Args extends readonly unknown[], Result>(
  component: { use<T>(fn: (connection: Conn) => T | Promise<T>, resolved: ReadyOptions): Promise<T> },
  fn: (connection: Conn, ...args: Args) => Result | Promise<Result>,
  options: ReadyOptions = {},
): ((...args: Args) => Promise<Result>) => {
  const resolved = settingsOf("options", options, readyRules);
  return (...args) => component.use((connection) => fn(connection, ...args), resolved);
};
