import { KitError, KitUnknownOutcomeError, type RedisArgument } from "@kit/core";
import { type ClientContext, Deadline, integer, isReplyError, serverError, stored } from "@kit/core/toolkit";
import { GeoIpCorruptError, GeoIpNoVersionError, GeoIpStagingError } from "./errors.js";
import { type GeoIpKeys, type Part, parts } from "./keys.js";
import { fieldsPerShard } from "./pages.js";
import * as scripts from "./scripts/index.js";

/** The parts of a version; stored as JSON with it. */
export interface Manifest {
  readonly layout: 1;
  readonly version: string;
  /** The format that it was read from: `GeoLite2-City`, `DB-IP country`, `ranges`. */
  readonly format: string;
  readonly importedAt: number;
  /** When the vendor made it, given by the importer. */
  readonly builtAt: number | null;
  /** The text that the licence of the data requires, given by the importer. */
  readonly attribution: string | null;
  readonly locales: readonly string[];
  /** Ranges that were read. */
  readonly ranges: { readonly v4: number; readonly v6: number };
  /** The number of fields of each part, over all its shards. */
  readonly fields: Readonly<Record<Part, number>>;
}

/** More would be 268 million ranges. */
const mostFields = integer(0, 1_048_576);
const fieldRules = Object.fromEntries(parts.map((part) => [part, mostFields]));

/** A version's manifest and page indexes. */
export interface VersionRecord {
  readonly manifest: Manifest;
  readonly index4: Buffer;
  readonly index6: Buffer;
}

/** Settings of a switch to a version. */
export interface ActivateOptions {
  readonly stagingMs: number;
  readonly keepPreviousMs: number;
  readonly deadlineMs: number;
}

/** Two processes that switch at the same time retry in turn; more retries than this indicate another fault. */
const maxTurns = 8;
/** The reply of PTTL for a key that does not expire. */
const noExpiry = -1;
/**
 * A version whose shards have less than this left is not switched to, since they become permanent only after the
 * switch.
 */
const shortestLeftMs = 500;

/** The commands of one database on one client. */
export class GeoIpCommands {
  readonly context: ClientContext;
  readonly database: string;
  readonly keys: GeoIpKeys;
  /** Called with a key of each command that reads the state or the data. */
  onUse: (key: string) => void = () => undefined;

  constructor(context: ClientContext, database: string, keys: GeoIpKeys) {
    this.context = context;
    this.database = database;
    this.keys = keys;
  }

  head(deadlineMs: number, signal?: AbortSignal): Promise<scripts.Head> {
    this.onUse(this.keys.current);
    return scripts.read.run(this.context, { current: this.keys.current }, {}, { deadlineMs, signal });
  }

  /**
   * The state of the database and the record of the serving version; undefined instead of the record if `known` serves.
   *
   * @throws {GeoIpNoVersionError} nothing was imported yet.
   * @throws {GeoIpCorruptError} the record is missing.
   */
  async serving(deadlineMs: number): Promise<{ readonly head: scripts.Head; readonly record: VersionRecord }>;
  async serving(
    deadlineMs: number,
    known: string | undefined,
  ): Promise<{ readonly head: scripts.Head; readonly record: VersionRecord | undefined }>;
  async serving(
    deadlineMs: number,
    known?: string,
  ): Promise<{ readonly head: scripts.Head; readonly record: VersionRecord | undefined }> {
    for (let turn = 0; ; turn++) {
      const head = await this.head(deadlineMs);
      if (head.current === undefined) throw new GeoIpNoVersionError(this.database, "has no version. Import one first");
      if (head.current === known) return { head, record: undefined };
      const record = await this.record(head.current, deadlineMs);
      if (record) return { head, record };
      // The version was replaced and expired between the two commands, or it is lost.
      if (turn === 2) throw new GeoIpCorruptError(this.database, head.current, "its record");
    }
  }

  /** Undefined if it is gone, or its manifest is damaged. */
  async record(version: string, deadlineMs: number): Promise<VersionRecord | undefined> {
    const args = [this.keys.version(version), "manifest", "fence4", "fence6"];
    const [manifest, index4, index6] = (await this.#read("HMGET", args, deadlineMs)) as (Buffer | null)[];
    if (!manifest || !index4 || !index6) return undefined;
    let parsed: Manifest;
    try {
      parsed = JSON.parse(manifest.toString()) as Manifest;
      stored(this.keys.version(version), parsed.fields, fieldRules);
    } catch {
      return undefined;
    }
    if ((parsed.layout as number) !== 1)
      throw new KitError(
        "KIT_LAYOUT",
        `A newer version of this package wrote database ${this.database}. Upgrade this process`,
      );
    return { manifest: parsed, index4, index6 };
  }

  /** Undefined if it is gone. */
  async field(version: string, part: Part, number: number, deadlineMs: number): Promise<Buffer | undefined> {
    const key = this.keys.shard(version, part, Math.floor(number / fieldsPerShard));
    const found = await this.#read("HGET", [key, number % fieldsPerShard], deadlineMs);
    return (found ?? undefined) as Buffer | undefined;
  }

  /** All fields of a shard, in order, without missing ones. */
  async shard(version: string, part: Part, shard: number, deadlineMs: number): Promise<(Buffer | undefined)[]> {
    const fields = Array.from({ length: fieldsPerShard }, (_, field) => field);
    const found = await this.#read("HMGET", [this.keys.shard(version, part, shard), ...fields], deadlineMs);
    return (found as (Buffer | null)[]).map((bytes) => bytes ?? undefined);
  }

  find(
    version: string,
    family: 4 | 6,
    page: number,
    address: Buffer,
    deadlineMs: number,
  ): Promise<scripts.FoundRange | undefined> {
    const shard = this.keys.shard(version, family === 4 ? "v4" : "v6", Math.floor(page / fieldsPerShard));
    return scripts.find.run(this.context, { shard }, { field: page % fieldsPerShard, address }, { deadlineMs });
  }

  async stage(
    key: string,
    fields: readonly RedisArgument[],
    { stagingMs, deadlineMs }: ActivateOptions,
    signal?: AbortSignal,
  ): Promise<void> {
    await scripts.stage.run(this.context, { target: key }, { stagingMs, fields }, { deadlineMs, signal });
  }

  /** Switches to a completely stored version, and makes it permanent. */
  async activate(version: string, manifest: Manifest, options: ActivateOptions): Promise<void> {
    for (let turn = 0; turn < maxTurns; turn++) {
      const mayAbandon = !(await this.settle(options));
      const epoch = await this.#switchTo(version, manifest, options, mayAbandon);
      if (epoch === undefined) continue;
      try {
        await this.settle(options);
        const head = await this.head(options.deadlineMs);
        // A failover has undone the switch: the version that serves now is older.
        if (head.current !== version && !(head.epoch > epoch)) continue;
        // Parts of the version may have expired during the switch: then the previous version serves again.
        if (await this.#isWhole(version, manifest, options.deadlineMs, 0)) return;
      } catch (error) {
        throw new KitUnknownOutcomeError(
          `The new version of database ${this.database} is active, but it may expire. Import again`,
          undefined,
          error,
        );
      }
      throw new GeoIpStagingError(this.database);
    }
    throw new KitError(
      "KIT_CONFLICT",
      `Other processes switched database ${this.database} at the same time. Try again`,
      {
        retryable: true,
      },
    );
  }

  /**
   * Completes a switch: makes the shards of the serving version permanent, and lets the shards of the previous version expire.
   * Idempotent, so that any process can complete a switch that a crash interrupted. Late calls yield to a later switch. If
   * shards have expired meanwhile, the previous version serves again. False if the previous version is incomplete as well.
   */
  async settle(options: ActivateOptions): Promise<boolean> {
    const { deadlineMs } = options;
    for (let turn = 0; turn < maxTurns; turn++) {
      const { current, previous, epoch, isSealed, keepMs } = await this.head(deadlineMs);
      if (current === undefined || isSealed) return true;
      const serving = await this.record(current, deadlineMs);
      const before = previous === "" ? undefined : await this.record(previous, deadlineMs);
      if (serving && (await this.#keep(current, serving.manifest, epoch, 0, deadlineMs))) {
        if (before) await this.#keep(previous, before.manifest, epoch, keepMs, deadlineMs);
        const keys = { current: this.keys.current, previous: this.keys.version(previous) };
        const args = { version: current, epoch, keepMs };
        if (await scripts.seal.run(this.context, keys, args, { deadlineMs, op: current })) return true;
        // Another process has switched meanwhile, or a failover undid the switch: then no record refers to these
        // shards.
        await this.#keep(current, serving.manifest, epoch, keepMs, deadlineMs);
      } else {
        if (!before) return false;
        try {
          await this.#switchTo(previous, before.manifest, options, true);
        } catch (error) {
          if (error instanceof GeoIpStagingError) return false;
          throw error;
        }
      }
    }
    return false;
  }

  /**
   * Moves the pointer, and resolves with the number of the previous switch; undefined if another process moved it
   * meanwhile.
   */
  async #switchTo(
    version: string,
    manifest: Manifest,
    { keepPreviousMs, deadlineMs }: ActivateOptions,
    mayAbandon: boolean,
  ): Promise<number | undefined> {
    // Only a check: setting an expiry here could hit a version that another process has just made permanent.
    if (!(await this.#isWhole(version, manifest, deadlineMs, shortestLeftMs)))
      throw new GeoIpStagingError(this.database);
    const { current = "", previous, epoch, isSealed } = await this.head(deadlineMs);
    // An abandoned version is never sealed, which would let the rest of the one before it expire.
    const isAbandoned = mayAbandon && current !== "" && !isSealed && previous !== "" && previous !== version;
    const before = isAbandoned ? await this.record(previous, deadlineMs) : undefined;
    if (before) await this.#keep(previous, before.manifest, epoch, keepPreviousMs, deadlineMs);
    const outcome = await scripts.switchTo.run(
      this.context,
      {
        current: this.keys.current,
        incoming: this.keys.version(version),
        before: this.keys.version(previous),
      },
      {
        version,
        expected: current,
        previous,
        keepMs: keepPreviousMs,
        mayAbandon: mayAbandon ? 1 : 0,
        channel: this.keys.changed,
      },
      // A second import would make this version the previous one, and a second roll-back would switch forward again.
      { deadlineMs, isRepeatable: false },
    );
    if (outcome === "gone") throw new GeoIpStagingError(this.database);
    if (outcome === "changed") return undefined;
    return current === "" ? 0 : epoch;
  }

  /** Switches back to the previous version. */
  async rollback(options: ActivateOptions): Promise<string> {
    await this.settle(options);
    const { previous } = await this.head(options.deadlineMs);
    const before = previous ? await this.record(previous, options.deadlineMs) : undefined;
    if (!before) throw new GeoIpNoVersionError(this.database, "has no earlier version to roll back to");
    try {
      await this.activate(previous, before.manifest, options);
    } catch (error) {
      if (!(error instanceof GeoIpStagingError)) throw error;
      throw new GeoIpNoVersionError(this.database, "has lost its earlier version");
    }
    return previous;
  }

  /** Removes staged keys, as far as the server can be reached; the rest expires. */
  async discard(keys: Iterable<string>, deadlineMs: number): Promise<void> {
    await Promise.allSettled([...keys].map((key) => this.#write("UNLINK", [key], deadlineMs)));
  }

  /** The keys of all shards of a version. */
  shardKeys(version: string, { fields }: Manifest): string[] {
    return parts.flatMap((part) =>
      Array.from({ length: Math.ceil(fields[part] / fieldsPerShard) }, (_, shard) =>
        this.keys.shard(version, part, shard),
      ),
    );
  }

  /** Whether each shard of a version exists, for longer than `ms`. */
  async #isWhole(version: string, manifest: Manifest, deadlineMs: number, ms: number): Promise<boolean> {
    const shards = this.shardKeys(version, manifest);
    const leftMs = await Promise.all(shards.map((key) => this.#read("PTTL", [key], deadlineMs)));
    return leftMs.map(Number).every((left) => left === noExpiry || left > ms);
  }

  /** Sets the life of a version; false if it is incomplete. */
  async #keep(version: string, manifest: Manifest, epoch: number, ms: number, deadlineMs: number): Promise<boolean> {
    const kept = this.shardKeys(version, manifest).map((shard) =>
      scripts.keep.run(this.context, { shard }, { epoch, ms }, { deadlineMs, op: version }),
    );
    return (await Promise.all(kept)).every((isThere) => isThere);
  }

  #read(command: string, args: readonly RedisArgument[], deadlineMs: number): Promise<unknown> {
    this.onUse(String(args[0]));
    return this.#run(command, args, deadlineMs, false);
  }

  #write(command: string, args: readonly RedisArgument[], deadlineMs: number): Promise<unknown> {
    return this.#run(command, args, deadlineMs, true);
  }

  async #run(command: string, args: readonly RedisArgument[], deadlineMs: number, mutates: boolean): Promise<unknown> {
    const what = `${command} of ${String(args[0])}`;
    // Each of these commands takes effect once, however often it is sent.
    const call = { what, mutates, idempotent: true, deadline: Deadline.in(deadlineMs), bytes: !mutates };
    try {
      return await this.context.executor.run(command, args, call);
    } catch (error) {
      throw isReplyError(error) ? serverError(error, what) : error;
    }
  }
}
