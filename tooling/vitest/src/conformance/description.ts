import type { OptionRules } from "./rules.js";

/**
 * One way to call a public method. Its key in `calls` begins with the method's name: `acquire`, `acquire, waiting`,
 * `mailbox.take`. Each test makes an object of its own, under a prefix of its own.
 */
export interface Call<T = never> {
  readonly options?: OptionRules;
  /** Options that it must have, where a test gives no others. */
  readonly required?: object;
  /** Makes what the call needs; the call gets it. */
  prepare?(object: T): Promise<unknown>;
  /** Throwing counts as rejecting. Private values in what it sends are {@link canary}. */
  run(object: T, options: object, prepared: never): unknown;
  /** The channel it is traced on, and what `start` says there. */
  readonly trace?: readonly [channel: string, facts: object];
  /** It stays pending until something ends it. */
  readonly waits?: true;
  /** It goes on without a server: it keeps what it has for later, has it already, or sends nothing. */
  readonly isLocal?: true;
  /** It tries again until there is a server, so that an outage does not end it. */
  readonly persists?: true;
  /** The outcome of the call at and after `close()`, where that is not KIT_CLOSED: a code, or a value. */
  readonly closed?: unknown;
  /** A signal ends its wait, not a command that was sent: that is settled within the deadline. */
  readonly isFinished?: true;
  /** Its outcome when its signal aborts, where that is no rejection with the signal's reason. */
  readonly aborted?: unknown;
  /** Makes the same call with this name; names that cannot be a key are refused with KIT_NAME. */
  named?(object: T, name: string): unknown;
}

/** Something that a package's users make over a client of theirs, and close. */
export interface Conforming<T = never> {
  /** As in "a lock". */
  readonly what: string;
  /** With defaults for what has none; `options` wins. */
  make(client: never, options: object): T;
  readonly options: OptionRules;
  /** Options that have no default. */
  readonly required?: readonly string[];
  readonly calls: Readonly<Record<string, Call<T>>>;
  /** Public methods that have no call here since they neither take options nor reach the server. */
  readonly others?: readonly string[];
  /** There is no `close()`: each call ends what it began, and takes all options. */
  readonly hasNoClose?: true;
  /** Reads how the data is laid out before it checks names. */
  readonly readsFirst?: true;
  /** More that a user does, with the same result on every kind of client. */
  works?(object: T): Promise<unknown>;
  /** Makes an object of this name, where objects have names; refused as in {@link Call.named}. */
  named?(client: never, name: string): unknown;
}

/** A package, as the conformance suites see it. */
export interface Conformance {
  /** As in its keys and channels: `lock`. */
  readonly name: string;
  readonly objects: readonly Conforming[];
  /** Keys without expiry, as `useRedis` takes them. */
  readonly permanentKeys?: readonly (string | RegExp)[];
  /** Traces have what the caller got as `result`, as its README says. */
  readonly tracesResults?: true;
  /** Tokens that it sends are proofs: they are to be as secret as passwords. */
  readonly hidesTokens?: true;
}

/** Lets TypeScript check a description against the type of its own object. */
export const conforming = <T extends object>(description: Conforming<T>): Conforming =>
  description as unknown as Conforming;

/** Stands in passwords, payloads and stored texts; no error, event or trace may show it. */
export const canary = "CANARY";
