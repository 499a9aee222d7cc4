import { type CoreErrorCode, KitError } from "../index.js";
import type { ConfigVersion } from "./scripts.js";

/**
 * Codes of the errors of configuration, flags and components.
 *
 * - `KIT_CONFIG_MISSING`: there is no such entry, or no such revision in its history
 * - `KIT_CONFIG_INVALID`: the schema refused a value, or it is no JSON, or too large
 * - `KIT_CONFIG_CONFLICT`: another write came first
 * - `KIT_CONFIG_LOST`: the server lost writes that this process has seen
 * - `KIT_COMPONENT_REFUSED`: the connection that an entry describes could not be opened, or failed its check
 */
export type ConfigErrorCode = Extract<CoreErrorCode, `KIT_CONFIG_${string}` | `KIT_COMPONENT_${string}`>;

/** Names may hold anything; in a message they must not break a line or drive a terminal. */
const shown = (text: string): string => JSON.stringify(text);

/** There is no such entry, or no such revision in its history. An object with a last good value keeps that. */
export class ConfigMissingError extends KitError {
  /** @internal */
  static override readonly brand: string = "ConfigMissingError";
  /** The entry's name. */
  readonly entry: string;

  constructor(entry: string, revision?: number) {
    const what =
      revision === undefined ? "is not set yet: call set()" : `has no revision ${String(revision)} in its history`;
    super("KIT_CONFIG_MISSING", `Configuration ${shown(entry)} ${what}`, { retryable: revision === undefined });
    this.entry = entry;
  }
}

/** One problem of a value, and its place. */
export interface ConfigIssue {
  /** The property names that lead to it, joined by dots; empty: the whole value. */
  readonly path: string;
  /** In words. Each part that quotes the value is replaced by `…`, since it may be secret. */
  readonly message: string;
}

/** A value was refused: by the schema, since it is no JSON, or since it exceeds `maxBytes`. */
export class ConfigInvalidError extends KitError {
  /** @internal */
  static override readonly brand: string = "ConfigInvalidError";
  /** The entry's name. */
  readonly entry: string;
  /** The first ten problems. */
  readonly issues: readonly ConfigIssue[];

  constructor(entry: string, issues: readonly ConfigIssue[]) {
    const words = issues.slice(0, 3).map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
    const more = issues.length > words.length ? "; and more" : "";
    super("KIT_CONFIG_INVALID", `A value of configuration ${shown(entry)} was refused: ${words.join("; ")}${more}`);
    this.entry = entry;
    this.issues = issues;
  }
}

/** Another version than the expected one is stored: another write came first. Nothing was changed. */
export class ConfigConflictError extends KitError {
  /** @internal */
  static override readonly brand: string = "ConfigConflictError";
  /** The entry's name. */
  readonly entry: string;
  /** The version found; undefined: there is none. */
  readonly version: ConfigVersion | undefined;

  constructor(entry: string, version: ConfigVersion | undefined) {
    const found = version ? `revision ${String(version.revision)} is there` : "it is not set";
    super(
      "KIT_CONFIG_CONFLICT",
      `Configuration ${shown(entry)} is not at the expected version: ${found}; read it, and set it again`,
    );
    this.entry = entry;
    this.version = version;
  }
}

/** The server lost writes that this process has read: by a failover, or because the entry was deleted and set again. */
export class ConfigLostError extends KitError {
  /** @internal */
  static override readonly brand: string = "ConfigLostError";
  /** The entry's name. */
  readonly entry: string;
  /** The version seen before. */
  readonly known: ConfigVersion;
  /** The version found now, which has been taken. */
  readonly found: ConfigVersion;

  constructor(entry: string, known: ConfigVersion, found: ConfigVersion) {
    const how =
      known.epoch === found.epoch
        ? `revision ${String(known.revision)} was seen, and now another revision ${String(found.revision)} is there`
        : `it began anew, at revision ${String(found.revision)}`;
    super("KIT_CONFIG_LOST", `Configuration ${shown(entry)} lost writes: ${how}`);
    this.entry = entry;
    this.known = known;
    this.found = found;
  }
}

/** The connection that an entry describes could not be opened, or failed its check. An earlier connection is kept. */
export class ComponentRefusedError extends KitError {
  /** @internal */
  static override readonly brand: string = "ComponentRefusedError";
  /** The component's name. */
  readonly component: string;

  constructor(component: string, why: string, cause?: KitError) {
    super("KIT_COMPONENT_REFUSED", `Component ${shown(component)} has no new connection: ${why}`, {
      cause,
      retryable: true,
    });
    this.component = component;
  }
}
