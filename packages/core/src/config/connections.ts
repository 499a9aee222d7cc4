import { KitError } from "../index.js";
import { Deadline, inTime, OwnAbortController, ownContext } from "../toolkit/index.js";
import type { OpenContext } from "./component-entry.js";
import type { Secrets } from "./component.js";
import { ComponentRefusedError } from "./errors.js";

/**
 * How long opening and checking a connection may take together, and how long closing it may take, in milliseconds. `connect()` and
 * kit's check give up much earlier. This limit is for user code, with time for a slow TLS handshake or a secret store.
 */
const foreignMs = 10_000;

/** A connection of a component, and the calls that use it. */
export interface Generation<Conn> {
  readonly number: number;
  readonly canonical: string;
  readonly connection: Conn;
  calls: number;
  onIdle?: () => void;
}

/** The functions and limits of a component. */
export interface ConnectionSettings<Conn, Entry> {
  readonly open: (entry: Entry, context: OpenContext) => Conn | Promise<Conn>;
  readonly check: ((connection: Conn) => unknown) | undefined;
  readonly close: (connection: Conn, isForced: boolean) => unknown;
  readonly secrets: Secrets;
  /** Whether the address of an entry may receive a secret. */
  readonly mayReceive: (entry: Entry) => boolean;
  readonly drainMs: number;
}

/** Receives what happens when a connection is closed. */
interface ConnectionEvents {
  forced(event: { readonly generation: number; readonly calls: number }): void;
  error(error: KitError): void;
}

/** Opens, checks and closes the connections of one component, with the functions in its options. */
export class Connections<Conn, Entry> {
  readonly #name: string;
  readonly #settings: ConnectionSettings<Conn, Entry>;
  readonly #events: ConnectionEvents;
  /** The context of the call that created the component, for the functions in its options. */
  readonly #inOwnContext = ownContext();
  readonly #ending = new Set<Promise<void>>();

  constructor(name: string, settings: ConnectionSettings<Conn, Entry>, events: ConnectionEvents) {
    this.#name = name;
    this.#settings = settings;
    this.#events = events;
  }

  /** A controller for `make`. */
  controller(): AbortController {
    return this.#inOwnContext(() => new OwnAbortController());
  }

  /**
   * Resolves with a checked connection. A connection that opens too late is closed.
   *
   * @throws {ComponentRefusedError} without secrets, so that it can be traced.
   */
  async make(entry: Entry, abort: AbortController): Promise<Conn> {
    const { open, check } = this.#settings;
    const { signal } = abort;
    const limit = { deadline: Deadline.in(foreignMs), signal };
    const late = (): Error => new ComponentRefusedError(this.#name, "it did not open in time");
    const opened = this.#inOwnContext(
      async () => await open(entry, { secret: (name) => this.#secret(name, entry), signal }),
    );
    try {
      const connection = await inTime(opened, limit, late);
      await inTime(
        this.#inOwnContext(async () => await check?.(connection)),
        limit,
        late,
      );
      return connection;
    } catch (error) {
      abort.abort();
      void opened.then(
        (connection) => this.track(this.shut(connection, true)),
        () => undefined,
      );
      throw this.#refusalOf(error);
    }
  }

  /** Closes a generation when its last call has ended, or by force after `drainMs`. */
  async retire(generation: Generation<Conn>): Promise<void> {
    if (generation.calls > 0) {
      const idle = new Promise<void>((resolve) => (generation.onIdle = resolve));
      await inTime(idle, { deadline: Deadline.in(this.#settings.drainMs) });
    }
    const { number, calls, connection } = generation;
    if (calls > 0) this.#events.forced({ generation: number, calls });
    await this.shut(connection, calls > 0);
  }

  async shut(connection: Conn, isForced: boolean): Promise<void> {
    try {
      const { close } = this.#settings;
      const limit = { deadline: Deadline.in(foreignMs) };
      const late = (): Error => new KitError("KIT_SERVER", "it did not close in time");
      await inTime(
        this.#inOwnContext(async () => await close(connection, isForced)),
        limit,
        late,
      );
    } catch (error) {
      const why = KitError.is(error) ? error.message : kindOf(error);
      const what = `Component ${JSON.stringify(this.#name)} cannot close a connection: ${why}`;
      this.#events.error(new KitError("KIT_SERVER", what));
    }
  }

  /** `ended()` waits for this work. */
  track(work: Promise<void>): void {
    this.#ending.add(work);
    void work.finally(() => this.#ending.delete(work));
  }

  /** Resolves once all work that is tracked has ended. */
  async ended(): Promise<void> {
    while (this.#ending.size > 0) await Promise.all(this.#ending);
  }

  #refusalOf(error: unknown): ComponentRefusedError {
    if (!KitError.is(error)) return new ComponentRefusedError(this.#name, kindOf(error));
    return error instanceof ComponentRefusedError ? error : new ComponentRefusedError(this.#name, error.message, error);
  }

  async #secret(name: string, entry: Entry): Promise<string> {
    if (!this.#settings.mayReceive(entry))
      throw new KitError(
        "KIT_TARGET",
        "its secret would leave this machine without TLS. Use rediss:, or set `allowPlaintextSecrets`",
      );
    const { url } = (entry ?? {}) as { url?: unknown };
    const value = await this.#settings.secrets(name, { url: typeof url === "string" ? url : undefined });
    if (typeof value !== "string" || value === "")
      throw new ComponentRefusedError(
        this.#name,
        `secret ${JSON.stringify(name)} has no value. Set KIT_SECRET_${name} in the environment, or return it from \`secrets\``,
      );
    return value;
  }
}

/** The kind of an error from outside kit, whose message may contain secrets. Never throws. */
const kindOf = (error: unknown): string => {
  try {
    if (!(error instanceof Error)) return "the thrown value is not an Error";
    const { code } = error as { code?: unknown };
    return typeof code === "string" ? `${error.name} ${code}` : error.name;
  } catch {
    return "the error cannot be read";
  }
};
