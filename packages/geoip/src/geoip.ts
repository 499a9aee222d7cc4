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
   * The reason: `invalid` for anything but an address; if the database has no range there, `private`, `loopback` … for a special-purpose address
   * and `gap` for an ordinary one; `unavailable` if no server could be reached.
   */
  readonly none: "invalid" | "gap" | "unavailable" | ReservedClass;
}

/** The answer to a look-up. */
export type Lookup = Located | NotLocated;

/** The events of a reader. */
export interface GeoIpEvents {
  /** This reader has loaded a version: its first one (`previous` is null), or another one that serves from now on. */
  readonly version: readonly [event: { readonly version: string; readonly previous: string | null }];
  /** The data is older than `maxAgeMs`. Emitted once for each version. */
  readonly stale: readonly [event: { readonly version: string; readonly ageMs: number }];
  /**
   * The server may drop keys when its memory is full. Under an `allkeys-…` policy it may drop parts of the serving version; under a
   * `volatile-…` policy only the previous version and one that is being imported. Emitted once for each policy. The policy is read in the
   * background, only while there is a listener, and again after a lost connection. Nothing is emitted where INFO is forbidden.
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

/** How many versions may disappear during a look-up before a reader reports corrupt data. */
const mostTurns = 4;

/** A reader of one database. Made by {@link createGeoIp}. */
export class GeoIp extends TypedEmitter<GeoIpEvents> implements AsyncDisposable {
  /** The database's name. */
  readonly database: string;
  readonly #settings: GeoIpSettings;
  readonly #life: ObjectLife;
  readonly #commands: GeoIpCommands;
  readonly #follower: VersionFollower;

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
    this.#follower = new VersionFollower(this.#commands, this.#settings, this.#life, {
      version: (event) => this.emit("version", event),
      error: (error) => this.emit("error", error),
    });
  }

  /**
   * Loads the data that look-ups need first: in `local` mode everything, otherwise the page index. A look-up does the
   * same when it is the first.
   *
   * @throws {GeoIpNoVersionError} nothing was imported yet.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async ready(): Promise<void> {
    await this.#call("ready", () => this.#follower.current());
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
   * Like `lookup()`, but synchronous; for `mode: "local"`, after `ready()`.
   *
   * @throws {GeoIpNotLoadedError} the mode is another, or the data is not loaded yet.
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
   * The version that serves now, according to the server.
   *
   * @throws {GeoIpNoVersionError} nothing was imported yet.
   */
  async info(): Promise<DatabaseInfo> {
    return await this.#call("info", () => this.#info());
  }

  /** The number of pages and places that this reader holds. */
  get cached(): { readonly pages: number; readonly places: number } {
    return this.#follower.serving?.release.cached ?? { pages: 0, places: 0 };
  }

  /**
   * Ends this reader. Look-ups that wait for the server settle as they would. The client is not touched. Idempotent.
   *
   * @throws {TypeError | RangeError} an option is not what it should be; nothing else.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, () => this.#follower.stop());
  }

  /** As `close()`. */
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
 * Makes a reader of a database that {@link importGeoIp} has stored, or will.
 *
 * `redis` is a client of core's `connect()`, of ioredis, or of `fromNodeRedis()`. It is borrowed: never closed, never
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
