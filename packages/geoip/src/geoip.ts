import { KitError, type RedisLike } from "@kit/core";
import { type CloseOptions, ObjectLife, resolve, TypedEmitter, watchEviction } from "@kit/core/toolkit";
import {
  type Address,
  type AddressInput,
  effectiveAddress,
  formatAddress,
  parseAddress,
  type ReservedClass,
  reservedClass,
} from "./address.js";
import { GeoIpCommands, type Manifest } from "./commands.js";
import { GeoIpNotLoadedError, GeoIpStaleError } from "./errors.js";
import { type Serving, VersionFollower } from "./follower.js";
import { geoIpKeys } from "./keys.js";
import { type GeoIpOptions, geoIpRules, type GeoIpSettings } from "./options.js";
import type { Located } from "./release.js";

/** An address without a place. */
export interface NotLocated {
  readonly place: null;
  /**
   * Why there is no place. `invalid`: the input is not an address. `private`, `loopback` …: a special-purpose address that is
   * in no range of the database. `gap`: an ordinary address that is in no range of the database. `unavailable`: no server could
   * be reached.
   */
  readonly none: "invalid" | "gap" | "unavailable" | ReservedClass;
}

/** The result of a look-up. */
export type Lookup = Located | NotLocated;

/** The events of a reader. */
export interface GeoIpEvents {
  /** This reader has loaded its first version (`previous` is null), or another version that serves from now on. */
  readonly version: readonly [event: { readonly version: string; readonly previous: string | null }];
  /** The data is older than `maxAgeMs`. Emitted once for each version. */
  readonly stale: readonly [event: { readonly version: string; readonly ageMs: number }];
  /**
   * The server can evict keys when its memory is full. With an `allkeys-…` policy it can evict parts of the serving version.
   * With a `volatile-…` policy it can evict only the previous version and a version that is being imported. Emitted once for
   * each policy. If the event has a listener, kit reads the policy in the background, and again after a lost connection.
   * Nothing is emitted if INFO is forbidden.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background operation failed. The reader continues with its loaded data. If checks for new versions fail, one error
   * is emitted, and one with the code `KIT_RECOVERED` when they work again.
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

/** How many versions may disappear during a look-up before a reader reports corrupt data. */
const mostTurns = 4;

/** A reader of one database. Create it with {@link createGeoIp}. */
export class GeoIp extends TypedEmitter<GeoIpEvents> implements AsyncDisposable {
  /** The database's name. */
  readonly database: string;
  readonly #settings: GeoIpSettings;
  readonly #life: ObjectLife;
  readonly #commands: GeoIpCommands;
  readonly #follower: VersionFollower;

  /** For this package only: use {@link createGeoIp}. */
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
    this.#follower = new VersionFollower(this.#commands, this.#settings, this.#life, {
      version: (event) => this.emit("version", event),
      error: (error) => this.emit("error", error),
    });
  }

  /**
   * Loads the data that look-ups need first: everything in `local` mode, otherwise the page index. Without this call, the first
   * look-up does the same.
   *
   * @throws {GeoIpNoVersionError} nothing was imported yet.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async ready(): Promise<void> {
    await this.#call("ready", () => this.#follower.current());
  }

  /**
   * Looks up an address: text (optionally with a port, brackets or a zone), 4 or 16 bytes, a number (IPv4), or a bigint (IPv6).
   *
   * If an IPv6 address carries an IPv4 address (mapped, NAT64, 6to4, Teredo), kit looks up the IPv4 address. An invalid address
   * resolves with `none: "invalid"` and never throws. Each answer is from one version. A cached place needs no server. Answers
   * are frozen, and callers with addresses of one range can receive the same object.
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
    const { serving } = this.#follower;
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
   * Like `lookup()`, but synchronous. It needs `mode: "local"`, after `ready()`.
   *
   * @throws {GeoIpNotLoadedError} the mode is not `local`, or the data is not loaded yet.
   * @throws {GeoIpStaleError} the data is older than `maxAgeMs`, and `onStale` is `"refuse"`.
   */
  lookupSync(address: AddressInput): Lookup {
    this.#life.assertOpen();
    const { serving } = this.#follower;
    if (!serving || this.#settings.mode !== "local") throw new GeoIpNotLoadedError(this.database);
    const parsed = parseAddress(address);
    if (!parsed) return invalid;
    const effective = effectiveAddress(parsed);
    return this.#answer(serving, effective, serving.release.peek(effective) ?? null);
  }

  /**
   * Returns the version that serves now, according to the server.
   *
   * @throws {GeoIpNoVersionError} nothing was imported yet.
   */
  async info(): Promise<DatabaseInfo> {
    return await this.#call("info", () => this.#info());
  }

  /** Returns the number of pages and places that this reader holds. */
  get cached(): { readonly pages: number; readonly places: number } {
    return this.#follower.serving?.release.cached ?? { pages: 0, places: 0 };
  }

  /**
   * Closes this reader. Look-ups that wait for the server settle as usual. Your client stays open. Idempotent.
   *
   * @throws {TypeError | RangeError} an option is invalid; no other error.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, () => this.#follower.stop());
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #info(): Promise<DatabaseInfo> {
    const { deadlineMs } = this.#settings;
    const { head, record } = await this.#commands.serving(deadlineMs);
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
    let serving = await this.#follower.current();
    for (let turn = 0; ; turn++) {
      try {
        return this.#answer(serving, address, await serving.release.find(address));
      } catch (error) {
        if (turn === mostTurns || !(await this.#follower.isOfTheReplaced(error))) throw error;
        serving = await this.#follower.reload();
      }
    }
  }

  #answer(serving: Serving, address: Address, found: Located | null): Lookup {
    this.#checkAge(serving);
    this.#follower.isUsed = true;
    return found ?? { place: null, none: reservedClass(address) ?? "gap" };
  }

  #checkAge(serving: Serving): void {
    if (serving.staleAt === Infinity) return;
    const overMs = performance.now() - serving.staleAt;
    if (overMs < 0) return;
    const ageMs = Math.floor(this.#settings.maxAgeMs + overMs);
    if (!serving.hasReportedStale) {
      serving.hasReportedStale = true;
      this.emit("stale", { version: serving.release.manifest.version, ageMs });
    }
    if (this.#settings.onStale === "refuse") throw new GeoIpStaleError(this.database, ageMs);
  }
}

/**
 * Creates a reader of a database. {@link importGeoIp} can store the database before or after this call.
 *
 * Pass `redis` as a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it, blocks it or
 * subscribes on it. A dedicated connection receives new versions. Call `close()` when you no longer need the reader.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const geo = createGeoIp(redis, "city", { locales: ["de", "en"] });
 * const { place } = await geo.lookup("2001:db8::1");
 */
export const createGeoIp = (redis: RedisLike, database: string, options: GeoIpOptions = {}): GeoIp =>
  new GeoIp(redis, database, options);

/** Returns the usual spelling of the address that `lookup()` uses: `1.2.3.4` for `::ffff:1.2.3.4`. Null for an invalid address. */
export const lookedUpAs = (address: AddressInput): string | null => {
  const parsed = parseAddress(address);
  if (!parsed) return null;
  const { family, value } = effectiveAddress(parsed);
  return formatAddress(family, value);
};
