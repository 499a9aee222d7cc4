import type { KitError } from "@kit/core";
import { asKitError, type ObjectLife, OutageReporter } from "@kit/core/toolkit";
import type { GeoIpCommands } from "./commands.js";
import { GeoIpCorruptError } from "./errors.js";
import type { GeoIpSettings } from "./options.js";
import { Release } from "./release.js";
import type { Head } from "./scripts/index.js";

/**
 * How often an active reader checks for a new version: a push may be lost, or the importer may not be allowed to
 * publish.
 */
const lookEveryMs = 60_000;
/**
 * A reader leaves a recent switch to its importer for this time, plus a random part of four times this time. Of many readers
 * one then completes the switch, and the others find it complete. A reader completes an older switch immediately, because its
 * importer may have died.
 */
const settleAfterMs = 500;
/** How many versions may disappear during a load before a reader reports corrupt data. */
const mostTurns = 4;

/** The version that answers. */
export interface Serving {
  readonly release: Release;
  /** The instant, by `performance.now()`, from which on the data is too old. */
  readonly staleAt: number;
  hasReportedStale: boolean;
}

/** Called when another version serves, and when a background operation failed. */
export interface FollowerEvents {
  readonly version: (event: { readonly version: string; readonly previous: string | null }) => void;
  readonly error: (error: KitError) => void;
}

/** Loads the serving version of a database when it is first needed, and follows its changes until it is stopped. */
export class VersionFollower {
  /** Whether a look-up was answered since the last check. A boolean, because reading the clock costs a fifth of a cached look-up. */
  isUsed = false;
  readonly #commands: GeoIpCommands;
  readonly #settings: GeoIpSettings;
  readonly #life: Pick<ObjectLife, "isClosed">;
  readonly #events: FollowerEvents;
  readonly #outage = new OutageReporter((error) => {
    if (!this.#life.isClosed) this.#events.error(error);
  });
  readonly #looking: NodeJS.Timeout;
  #serving: Serving | undefined;
  #loading: Promise<Serving> | undefined;
  /** Whether a change was announced after the load in flight started. */
  #isOutdated = false;
  #settling: NodeJS.Timeout | undefined;

  constructor(commands: GeoIpCommands, settings: GeoIpSettings, life: ObjectLife, events: FollowerEvents) {
    this.#commands = commands;
    this.#settings = settings;
    this.#life = life;
    this.#events = events;
    const stopListening = life.context.inbox.listen(commands.keys.changed, {
      message: () => this.#refresh(),
      state: (state) => {
        // A change may have been published while there was no subscription.
        if (state === "open") this.#refresh();
      },
    });
    life.onClosed(stopListening);
    this.#looking = setInterval(() => this.#lookIfUsed(), lookEveryMs).unref();
  }

  /** The version that is loaded; undefined before the first load. */
  get serving(): Serving | undefined {
    return this.#serving;
  }

  /** The version that is loaded, or the result of a load. */
  async current(): Promise<Serving> {
    return this.#serving ?? (await this.#load());
  }

  /** Loads the version that serves now. A load in flight is repeated, because it may have started before the change. */
  reload(): Promise<Serving> {
    this.#isOutdated = true;
    return this.#load();
  }

  /**
   * Whether an error is about missing data of a version that no longer serves. Either the push of the next version was lost, or
   * the importer died before the switch was complete and parts of the version have expired since.
   */
  async isOfTheReplaced(error: unknown): Promise<boolean> {
    if (!(error instanceof GeoIpCorruptError)) return false;
    const { deadlineMs } = this.#settings;
    let head = await this.#commands.head(deadlineMs);
    if (head.current === error.version && !head.isSealed) {
      await this.#settle(head);
      head = await this.#commands.head(deadlineMs);
    }
    return head.current !== error.version;
  }

  /** Ends the timers; resolves when no load is under way. Its commands end by their own deadlines. */
  async stop(): Promise<void> {
    clearInterval(this.#looking);
    clearTimeout(this.#settling);
    await this.#loading?.catch(() => undefined);
  }

  #lookIfUsed(): void {
    if (this.isUsed) this.#refresh();
    this.isUsed = false;
  }

  /** Checks in the background whether another version serves. */
  #refresh(): void {
    if (this.#life.isClosed) return;
    // Before the first look-up there is no data that could be outdated.
    if (!this.#serving && !this.#loading) return;
    this.reload().then(
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
        if (turn === mostTurns || !(await this.isOfTheReplaced(error))) throw error;
      }
    }
  }

  async #loadOnce(): Promise<Serving> {
    const before = this.#serving;
    const { deadlineMs, mode, maxAgeMs } = this.#settings;
    const { head, record } = await this.#commands.serving(deadlineMs, before?.release.manifest.version);
    if (!head.isSealed) {
      const waitMs = settleAfterMs * (1 + 4 * Math.random());
      // The server's clock gives whole seconds.
      if (head.now - head.switchedAt > 1_000 + 5 * settleAfterMs) void this.#settle(head);
      else this.#settling ??= setTimeout(() => void this.#settleLater(), waitMs).unref();
    }
    if (!record) return before!;
    const release = new Release(this.#commands, this.#settings, record);
    if (mode === "local") await release.loadAll();
    const { builtAt, importedAt, version } = record.manifest;
    const ageMs = head.now - (builtAt ?? importedAt);
    const staleAt = maxAgeMs === 0 ? Infinity : performance.now() + maxAgeMs - ageMs;
    const serving = { release, staleAt, hasReportedStale: false };
    this.#serving = serving;
    if (!this.#life.isClosed) this.#events.version({ version, previous: before?.release.manifest.version ?? null });
    return serving;
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
