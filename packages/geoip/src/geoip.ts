import { KitError, type RedisLike } from "@kit/core";
import {
  asKitError,
  type CloseOptions,
  ObjectLife,
  resolve,
  OutageReporter,
  TypedEmitter,
  watchEviction,
} from "@kit/core/toolkit";
import {
  type Address,
  type AddressInput,
  effectiveAddress,
  formatAddress,
  parseAddress,
  type ReservedClass,
  reservedClass,
} from "./address.js";
import { GeoIpCorruptError, GeoIpNotLoadedError, GeoIpNoVersionError, GeoIpStaleError } from "./errors.js";
import { geoIpKeys } from "./keys.js";
import { type GeoIpOptions, geoIpRules, type GeoIpSettings } from "./options.js";
import { type Located, Release } from "./release.js";
import type { Head } from "./scripts/index.js";
import { GeoIpCommands, type Manifest } from "./commands.js";

/** An address without a place. */
export interface NotLocated {
  readonly place: null;
  /**
   * The reason: it is no address (`invalid`); the database has no range there, and it is a special-purpose address
   * (`private`, `loopback` …) or an ordinary one (`gap`); the server could not be asked (`unavailable`).
   */
  readonly none: "invalid" | "gap" | "unavailable" | ReservedClass;
}

/** The answer to a look-up. */
export type Lookup = Located | NotLocated;

/** The events of a reader. */
export interface GeoIpEvents {
  /** Another version serves from now on. */
  readonly version: readonly [event: { readonly version: string; readonly previous: string | null }];
  /** The data is older than `maxAgeMs`. Emitted once for each version. */
  readonly stale: readonly [event: { readonly version: string; readonly ageMs: number }];
  /**
   * The server may drop keys when its memory is full: any, and with them parts of the database, under an `allkeys-…` policy; under a
   * `volatile-…` one the version before, and one that is being imported. Emitted once for each policy; asked in the background, only
   * while there is a listener, and again after a lost connection. Nothing is emitted where INFO is forbidden.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background operation failed. The reader continues with the data that it has. While looking for new versions fails, one error is
   * emitted, and one with the code `KIT_RECOVERED` when it works again.
   */
  readonly error: readonly [error: KitError];
}

/** A version of a database, for people and health checks. */
export interface DatabaseInfo extends Omit<Manifest, "layout" | "fields"> {
  readonly database: string;
  /** Milliseconds since `builtAt`, or since the import. */
  readonly ageMs: number;
  /** The previous version, while it is kept. */
  readonly previous: string | null;
  /** Pages of 256 ranges that are stored. */
  readonly pages: number;
}

const invalid: NotLocated = Object.freeze({ place: null, none: "invalid" });
const unavailable: NotLocated = Object.freeze({ place: null, none: "unavailable" });

/**
 * How often an active reader checks for a new version: a push may be lost, or the importer may not be allowed to
 * publish.
 */
const lookEveryMs = 60_000;
/**
 * A reader leaves a switch to its importer for this long, and each waits for another part of four times as long more: of many readers one completes the
 * switch, and the others find it complete. An older switch a reader completes at once: it may not live for long.
 */
const settleAfterMs = 500;
/** How many versions may disappear during a load or a look-up before a reader reports corrupt data. */
const mostTurns = 4;

interface Serving {
  readonly release: Release;
  /** The instant, by `performance.now()`, from which on the data is too old. */
  readonly staleAt: number;
  hasToldStale: boolean;
}

/** A reader of one database. Made by {@link createGeoIp}. */
export class GeoIp extends TypedEmitter<GeoIpEvents> implements AsyncDisposable {
  /** The database's name. */
  readonly database: string;
  readonly #settings: GeoIpSettings;
  readonly #life: ObjectLife;
  readonly #commands: GeoIpCommands;
  readonly #outage = new OutageReporter((error) => {
    if (!this.#life.isClosed) this.emit("error", error);
  });
  #serving: Serving | undefined;
  #loading: Promise<Serving> | undefined;
  /** Whether a change was announced since the load under way began. */
  #isOutdated = false;
  #settling: NodeJS.Timeout | undefined;
  readonly #looking: NodeJS.Timeout;
  /**
   * Whether it answered since its last check. A boolean, because reading the clock costs a fifth of a cached look-up.
   */
  #isUsed = false;

  /** Only this package calls it. */
  constructor(redis: RedisLike, database: string, options: GeoIpOptions) {
    super();
    this.#settings = resolve("options", options, geoIpRules);
    this.database = database;
    const keys = geoIpKeys(this.#settings.prefix, database);
    this.#life = new ObjectLife(redis, this.#settings, "The reader");
    const { context } = this.#life;
    this.#commands = new GeoIpCommands(context, database, keys);
    this.#commands.onUse = watchEviction(
      context,
      () => this.hasListeners("evictable"),
      (policy) => this.emit("evictable", { policy }),
    );
    const stopListening = context.inbox.listen(keys.changed, {
      message: () => this.#refresh(),
      state: (state) => {
        // A change may have been published while there was no subscription.
        if (state === "open") this.#refresh();
      },
    });
    this.#life.onClosed(stopListening);
    this.#looking = setInterval(() => this.#lookIfUsed(), lookEveryMs).unref();
  }

  /**
   * Loads the data that look-ups need first: in `local` mode everything, otherwise the fence. A look-up does it by
   * itself.
   *
   * @throws {GeoIpNoVersionError} nothing was imported yet.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async ready(): Promise<void> {
    await this.#call("ready", () => this.#current());
  }

  /**
   * Looks an address up: text (with a port, brackets or a zone, too), 4 or 16 bytes, a number (IPv4), or a bigint (IPv6).
   *
   * IPv6 that carries an IPv4 address (mapped, NAT64, 6to4, Teredo) is looked up as that. An invalid address resolves
   * with `none: "invalid"`; it never throws for the address. Each answer is of one version. A cached place needs no
   * server. Answers are frozen: callers with addresses of one range may receive the same object.
   *
   * @throws {GeoIpNoVersionError} nothing was imported yet.
   * @throws {GeoIpCorruptError} a part of the data is missing or damaged.
   * @throws {GeoIpStaleError} the data is older than `maxAgeMs`, and `onStale` is `"refuse"`.
   * @throws {KitUnavailableError} no server answered in time, and `onUnavailable` is `"reject"`.
   *
   * @example
   * const { place } = await geo.lookup("81.2.69.160");
   * const country = place?.country ?? "unknown";
   */
  async lookup(address: AddressInput): Promise<Lookup> {
    this.#life.assertOpen();
    const parsed = parseAddress(address);
    if (!parsed) return invalid;
    const effective = effectiveAddress(parsed);
    const serving = this.#serving;
    const found = serving?.release.peek(effective);
    if (serving && found !== undefined) return this.#answer(serving, effective, found);
    try {
      return await this.#call("lookup", () => this.#find(effective));
    } catch (error) {
      if (this.#settings.onUnavailable === "none" && KitError.is(error) && error.code === "KIT_UNAVAILABLE")
        return unavailable;
      throw error;
    }
  }

  /**
   * Like `lookup()`, but synchronous; for `mode: "local"`, after `ready()`.
   *
   * @throws {GeoIpNotLoadedError} the mode is another, or the data is not loaded yet.
   * @throws {GeoIpStaleError} the data is older than `maxAgeMs`, and `onStale` is `"refuse"`.
   */
  lookupSync(address: AddressInput): Lookup {
    this.#life.assertOpen();
    const serving = this.#serving;
    if (!serving || this.#settings.mode !== "local") throw new GeoIpNotLoadedError(this.database);
    const parsed = parseAddress(address);
    if (!parsed) return invalid;
    const effective = effectiveAddress(parsed);
    return this.#answer(serving, effective, serving.release.peek(effective) ?? null);
  }

  /**
   * The version that serves now, according to the server.
   *
   * @throws {GeoIpNoVersionError} nothing was imported yet.
   */
  async info(): Promise<DatabaseInfo> {
    return await this.#call("info", () => this.#info());
  }

  /** The number of pages and places that this reader holds. */
  get cached(): { readonly pages: number; readonly places: number } {
    return this.#serving?.release.cached ?? { pages: 0, places: 0 };
  }

  /**
   * Ends this reader. Look-ups that wait for the server settle as they would. The client is not touched. Idempotent.
   *
   * @throws {TypeError | RangeError} an option is not what it should be; nothing else.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, async () => {
      clearInterval(this.#looking);
      clearTimeout(this.#settling);
      // Its commands end by their own deadlines.
      await this.#loading?.catch(() => undefined);
    });
  }

  /** As `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #info(): Promise<DatabaseInfo> {
    const { deadlineMs } = this.#settings;
    const { head, record } = await this.#read();
    const { manifest } = record;
    const isKept = head.previous !== "" && (await this.#commands.record(head.previous, deadlineMs)) !== undefined;
    const { layout: _, fields, ...facts } = manifest;
    return {
      database: this.database,
      ...facts,
      ageMs: head.now - (manifest.builtAt ?? manifest.importedAt),
      previous: isKept ? head.previous : null,
      pages: fields.v4 + fields.v6,
    };
  }

  #call<T>(operation: string, call: () => Promise<T>): Promise<T> {
    return this.#life.call(`geoip.${operation}`, () => ({ database: this.database }), call);
  }

  async #find(address: Address): Promise<Lookup> {
    let serving = await this.#current();
    for (let turn = 0; ; turn++) {
      try {
        return this.#answer(serving, address, await serving.release.find(address));
      } catch (error) {
        if (turn === mostTurns || !(await this.#isOfTheReplaced(error))) throw error;
        // A load under way may have begun before the change.
        this.#isOutdated = true;
        serving = await this.#load();
      }
    }
  }

  /**
   * Whether an error is about missing data of a version that no longer serves: the push of the next version was lost,
   * or the importer died before the switch was complete and parts of the version have expired since.
   */
  async #isOfTheReplaced(error: unknown): Promise<boolean> {
    if (!(error instanceof GeoIpCorruptError)) return false;
    const { deadlineMs } = this.#settings;
    let head = await this.#commands.head(deadlineMs);
    if (head.current === error.version && !head.isSealed) {
      await this.#settle(head);
      head = await this.#commands.head(deadlineMs);
    }
    return head.current !== error.version;
  }

  #answer(serving: Serving, address: Address, found: Located | null): Lookup {
    this.#checkAge(serving);
    this.#isUsed = true;
    return found ?? { place: null, none: reservedClass(address) ?? "gap" };
  }

  #checkAge(serving: Serving): void {
    if (serving.staleAt === Infinity) return;
    const overMs = performance.now() - serving.staleAt;
    if (overMs < 0) return;
    const ageMs = Math.floor(this.#settings.maxAgeMs + overMs);
    if (!serving.hasToldStale) {
      serving.hasToldStale = true;
      this.emit("stale", { version: serving.release.manifest.version, ageMs });
    }
    if (this.#settings.onStale === "refuse") throw new GeoIpStaleError(this.database, ageMs);
  }

  #lookIfUsed(): void {
    if (this.#isUsed) this.#refresh();
    this.#isUsed = false;
  }

  async #current(): Promise<Serving> {
    return this.#serving ?? (await this.#load());
  }

  /** Checks in the background whether another version serves. */
  #refresh(): void {
    if (this.#life.isClosed) return;
    // Before the first look-up there is no data that could be outdated.
    if (!this.#serving && !this.#loading) return;
    this.#isOutdated = true;
    this.#load().then(
      () => this.#outage.worked("looking"),
      (error: unknown) => this.#outage.failed("looking", asKitError(error, "Looking for another version")),
    );
  }

  /** One load at a time; a change during it causes another load. */
  #load(): Promise<Serving> {
    this.#loading ??= this.#loadUntilCurrent().finally(() => (this.#loading = undefined));
    return this.#loading;
  }

  async #loadUntilCurrent(): Promise<Serving> {
    for (let turn = 0; ; turn++) {
      this.#isOutdated = false;
      try {
        const serving = await this.#loadOnce();
        if (!this.#isOutdated || this.#life.isClosed) return serving;
      } catch (error) {
        if (turn === mostTurns || !(await this.#isOfTheReplaced(error))) throw error;
      }
    }
  }

  async #loadOnce(): Promise<Serving> {
    const before = this.#serving;
    const { head, record } = await this.#read(before?.release.manifest.version);
    if (!head.isSealed) {
      const waitMs = settleAfterMs * (1 + 4 * Math.random());
      // The server's clock gives whole seconds.
      if (head.now - head.switchedAt > 1_000 + 5 * settleAfterMs) void this.#settle(head);
      else this.#settling ??= setTimeout(() => void this.#settleLater(), waitMs).unref();
    }
    if (!record) return before!;
    const release = new Release(this.#commands, this.#settings, record);
    if (this.#settings.mode === "local") await release.loadAll();
    const { maxAgeMs } = this.#settings;
    const { builtAt, importedAt, version } = record.manifest;
    const ageMs = head.now - (builtAt ?? importedAt);
    const staleAt = maxAgeMs === 0 ? Infinity : performance.now() + maxAgeMs - ageMs;
    const serving = { release, staleAt, hasToldStale: false };
    this.#serving = serving;
    if (!this.#life.isClosed) this.emit("version", { version, previous: before?.release.manifest.version ?? null });
    return serving;
  }

  /** The record of the serving version; without the record if that version is already loaded. */
  async #read(): Promise<{
    readonly head: Head;
    readonly record: NonNullable<Awaited<ReturnType<GeoIpCommands["record"]>>>;
  }>;
  async #read(
    known: string | undefined,
  ): Promise<{ readonly head: Head; readonly record: Awaited<ReturnType<GeoIpCommands["record"]>> }>;
  async #read(
    known?: string,
  ): Promise<{ readonly head: Head; readonly record: Awaited<ReturnType<GeoIpCommands["record"]>> }> {
    const { deadlineMs } = this.#settings;
    for (let turn = 0; ; turn++) {
      const head = await this.#commands.head(deadlineMs);
      if (head.current === undefined) throw new GeoIpNoVersionError(this.database, "has no version: import one first");
      if (head.current === known) return { head, record: undefined };
      const record = await this.#commands.record(head.current, deadlineMs);
      if (record) return { head, record };
      // The version was replaced and expired between the two commands, or it is lost.
      if (turn === 2) throw new GeoIpCorruptError(this.database, head.current, "its record");
    }
  }

  async #settleLater(): Promise<void> {
    this.#settling = undefined;
    const head = await this.#commands.head(this.#settings.deadlineMs).catch(() => undefined);
    if (head?.isSealed === false && !this.#life.isClosed) await this.#settle(head);
  }

  /** Completes a switch in case the importer has died. Never rejects. */
  async #settle({ keepMs }: Head): Promise<void> {
    const options = { stagingMs: keepMs, keepPreviousMs: keepMs, deadlineMs: this.#settings.deadlineMs };
    try {
      await this.#commands.settle(options);
    } catch (error) {
      this.#outage.report(asKitError(error, "Completing a switch of versions"));
    }
  }
}

/**
 * Makes a reader of a database that {@link importGeoIp} has stored, or will.
 *
 * `redis` is any ioredis `Redis` or `Cluster`, or what core's `connect()` gives. It is borrowed: never closed, never
 * blocked, never subscribed. A dedicated connection receives new versions. Call `close()` when the reader is no longer
 * needed.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const geo = createGeoIp(redis, "city", { locales: ["de", "en"] });
 * const { place } = await geo.lookup("2001:db8::1");
 */
export const createGeoIp = (redis: RedisLike, database: string, options: GeoIpOptions = {}): GeoIp =>
  new GeoIp(redis, database, options);

/**
 * The usual spelling of the address under which another is looked up: `1.2.3.4` for `::ffff:1.2.3.4`; otherwise null.
 */
export const lookedUpAs = (address: AddressInput): string | null => {
  const parsed = parseAddress(address);
  if (!parsed) return null;
  const { family, value } = effectiveAddress(parsed);
  return formatAddress(family, value);
};
