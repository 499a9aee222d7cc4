import { type CoreErrorCode, KitError } from "../index.js";
import type { ConfigVersion } from "./scripts.js";

/** Codes of the errors of configuration, flags and components. */
export type ConfigErrorCode = Extract<CoreErrorCode, `KIT_CONFIG_${string}` | `KIT_COMPONENT_${string}`>;

/** Quotes a name: it may contain anything, but must not break a line in a message or control a terminal. */
const shown = (text: string): string => JSON.stringify(text);

/**
 * The entry does not exist, or its history does not have the requested revision. An object that has read a valid value keeps it.
 * Retryable if the entry is missing.
 */
export class ConfigMissingError extends KitError {
  /** @internal */
  static override readonly brand: string = "ConfigMissingError";
  /** The entry's name. */
  readonly entry: string;

  constructor(entry: string, revision?: number) {
    const what =
      revision === undefined ? "is not set. Call set() first" : `has no revision ${String(revision)} in its history`;
    super("KIT_CONFIG_MISSING", `Configuration ${shown(entry)} ${what}`, { retryable: revision === undefined });
    this.entry = entry;
  }
}

/** One problem of a value, and where it is. */
export interface ConfigIssue {
  /** The property names that lead to it, joined by dots. Empty for the whole value. */
  readonly path: string;
  /** The problem in words. Each part that quotes the value is replaced by `…`, because the value may be secret. */
  readonly message: string;
}

/**
 * A value was rejected: it does not match the schema, is not JSON, or is larger than `maxBytes`. `issues` contains the path and the
 * reason of each problem, without the value.
 */
export class ConfigInvalidError extends KitError {
  /** @internal */
  static override readonly brand: string = "ConfigInvalidError";
  /** The entry's name. */
  readonly entry: string;
  /** The first ten problems. */
  readonly issues: readonly ConfigIssue[];

  constructor(entry: string, issues: readonly ConfigIssue[]) {
    const words = issues.slice(0, 3).map(({ path, message }) => (path === "" ? message : `${path}: ${message}`));
    const more = issues.length > words.length ? "; …" : "";
    super("KIT_CONFIG_INVALID", `The value of configuration ${shown(entry)} is invalid: ${words.join("; ")}${more}`);
    this.entry = entry;
    this.issues = issues;
  }
}

/**
 * The stored version is not the expected version: another write came first. Nothing was changed. Read the entry and set it again.
 */
export class ConfigConflictError extends KitError {
  /** @internal */
  static override readonly brand: string = "ConfigConflictError";
  /** The entry's name. */
  readonly entry: string;
  /** The version found. Undefined if there is none. */
  readonly version: ConfigVersion | undefined;

  constructor(entry: string, version: ConfigVersion | undefined) {
    const found = version ? `it has revision ${String(version.revision)}` : "it is not set";
    super(
      "KIT_CONFIG_CONFLICT",
      `Configuration ${shown(entry)} is not at the expected version: ${found}. Read it, then set it again`,
    );
    this.entry = entry;
    this.version = version;
  }
}

/**
 * The server lost writes that this process has read: in a failover, or because the entry was deleted and set again. `known` is the
 * version before, `found` the version now in use. Only emitted as an `error` event.
 */
export class ConfigLostError extends KitError {
  /** @internal */
  static override readonly brand: string = "ConfigLostError";
  /** The entry's name. */
  readonly entry: string;
  /** The version seen before. */
  readonly known: ConfigVersion;
  /** The version found now, which is in use. */
  readonly found: ConfigVersion;

  constructor(entry: string, known: ConfigVersion, found: ConfigVersion) {
    const how =
      known.epoch === found.epoch
        ? `revision ${String(known.revision)} is now a different revision ${String(found.revision)}`
        : `it was created again, and is now at revision ${String(found.revision)}`;
    super("KIT_CONFIG_LOST", `Configuration ${shown(entry)} lost writes: ${how}`);
    this.entry = entry;
    this.known = known;
    this.found = found;
  }
}

/** The connection that an entry describes could not be opened, or failed its check. kit keeps an earlier connection. Retryable. */
export class ComponentRefusedError extends KitError {
  /** @internal */
  static override readonly brand: string = "ComponentRefusedError";
  /** The component's name. */
  readonly component: string;

  constructor(component: string, why: string, cause?: KitError) {
    super("KIT_COMPONENT_REFUSED", `Component ${shown(component)} cannot open a new connection: ${why}`, {
      cause,
      retryable: true,
    });
    this.component = component;
  }
}

/** Errors about the value, as opposed to reaching the server. */
export const isAboutValue = (error: KitError): boolean =>
  error instanceof ConfigMissingError || error instanceof ConfigInvalidError;
