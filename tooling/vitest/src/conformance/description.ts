import type { Described, OptionRules } from "./rules.js";

/**
 * A way to call a public method. Its key in `calls` begins with the method's name: `acquire`, `acquire, waiting`,
 * `mailbox.take`. Each test makes an object of its own under a prefix of its own.
 */
export interface Call<T = never> extends Described {
  /** Required options of the call, for tests that give no others. */
  readonly required?: object;
  /** Prepares the call, which gets the result. */
  prepare?(object: T): Promise<unknown>;
  /** Makes the call. A throw counts as a rejection. Private values that the call sends are {@link canary}. */
  run(object: T, options: object, prepared: never): unknown;
  /** The channel on which the call is traced, and the fields of its `start`. */
  readonly trace?: readonly [channel: string, facts: object];
  /** The call stays pending until another event ends it. */
  readonly waits?: true;
  /** The call succeeds without a server: it buffers, replies from its cache, or sends nothing. */
  readonly isLocal?: true;
  /** The call retries until there is a server, so that an outage does not end it. */
  readonly persists?: true;
  /** The outcome of the call at and after `close()`, as a code or a value. @default KIT_CLOSED */
  readonly closed?: unknown;
  /** A signal ends the call's wait and not a command that was sent. The command settles within the deadline. */
  readonly isFinished?: true;
  /** The outcome when the signal aborts, if it is not a rejection with the signal's reason. */
  readonly aborted?: unknown;
  /** Makes the same call with this name; names that cannot be a key are refused with KIT_NAME. */
  named?(object: T, name: string): unknown;
}

/** An object that a package's users make on a client of theirs, and close. */
export interface Conforming<T = never> extends Described {
  /** The object in words, as in "a lock". */
  readonly what: string;
  /** Makes the object, with values for the required options. `options` overrides them. */
  make(client: never, options: object): T;
  readonly options: OptionRules;
  readonly calls: Readonly<Record<string, Call<T>>>;
  /** Public methods without a call here, since they neither take options nor reach the server. */
  readonly others?: readonly string[];
  /** There is no `close()`. Each call cleans up after itself and takes all options. */
  readonly hasNoClose?: true;
  /** Calls read the layout of the data before they check names. */
  readonly readsFirst?: true;
  /** Further work of a user, with the same result on every kind of client. */
  works?(object: T): Promise<unknown>;
  /** Sends commands, whenever it is called. Where it is given, the object emits `evictable`. */
  uses?(object: T): Promise<unknown>;
  /**
   * Waits that an event ends, by name: each begins to wait, lets its command reach the server (`settle`), causes the event
   * and resolves with what came. Messages wake them on every kind of client.
   */
  readonly wakes?: Readonly<Record<string, (object: T, settle: () => Promise<void>) => Promise<unknown>>>;
  /** Makes an object of this name, if objects have names. Names are refused as in {@link Call.named}. */
  named?(client: never, name: string): unknown;
}

/** The description of a package for the conformance suites. */
export interface Conformance {
  /** The name in keys and channels: `lock`. */
  readonly name: string;
  readonly objects: readonly Conforming[];
  /** Keys without expiry, as `useRedis` takes them. */
  readonly permanentKeys?: readonly (string | RegExp)[];
  /** Traces contain the caller's result as `result`, as the README says. */
  readonly tracesResults?: true;
  /** Tokens that the package sends prove ownership, so they must be as secret as passwords. */
  readonly hidesTokens?: true;
}

/** Lets TypeScript check a description against the type of its own object. */
export const conforming = <T extends object>(description: Conforming<T>): Conforming =>
  description as unknown as Conforming;

/** A text in passwords, payloads and stored data. No error, event or trace may show it. */
export const canary = "CANARY";
