/**
 * Codes of errors that any kit package can raise. Codes are stable; messages are not. These codes don't have their own class:
 *
 * - `KIT_SERVER_FULL`: the server is at `maxmemory`. Retryable
 * - `KIT_READONLY`: the server is a replica. Retryable
 * - `KIT_LOADING`: the server does not serve its data yet. Retryable
 * - `KIT_BUSY`: the server is busy with a long script. Retryable
 * - `KIT_CLUSTER`: the Cluster is down, the slot of the keys is moving, or the keys are in several slots. Retryable, except for
 *   keys in several slots
 * - `KIT_AUTH`: the server rejected the credentials, or requires a password
 * - `KIT_NO_PERMISSION`: the ACL user may not run a command, or may not use a key or a channel
 * - `KIT_NOSCRIPT`: the server lost a script between two tries. Retryable
 * - `KIT_LAYOUT`: the data was written by a newer major version of the package, or is damaged
 * - `KIT_NAME`: a name is empty, longer than 512 bytes, or not well-formed Unicode
 * - `KIT_TARGET`: `connect()` cannot parse an address, or the server does not have the address's database. The message never
 *   contains a password
 * - `KIT_RECOVERED`: an `error` event that reports a recovery: background work that had failed works again. `cause` is the first
 *   failure
 * - `KIT_SERVER`: any other error of the server. Retryable if the server refuses writes (`NOREPLICAS`, `MISCONF`). A script or an
 *   EXEC that failed midway may have made some of its writes
 * - `KIT_UNSUPPORTED`: the client does not support the call: for example, a client over HTTP has no connections and sends only
 *   text. Or `connect()` cannot find ioredis. Nothing was sent
 * - `KIT_UNEXPECTED`: neither kit nor the server raised the error: it is a bug in kit or in your program. `cause` is the original
 *   error. Retryable
 */
export type CoreErrorCode =
  | "KIT_UNAVAILABLE"
  | "KIT_UNKNOWN_OUTCOME"
  | "KIT_KEY_TYPE"
  | "KIT_SERVER_FULL"
  | "KIT_READONLY"
  | "KIT_LOADING"
  | "KIT_BUSY"
  | "KIT_CLUSTER"
  | "KIT_AUTH"
  | "KIT_NO_PERMISSION"
  | "KIT_NOSCRIPT"
  | "KIT_LAYOUT"
  | "KIT_CONFLICT"
  | "KIT_CLOSED"
  | "KIT_NAME"
  | "KIT_TARGET"
  | "KIT_RECOVERED"
  | "KIT_SERVER"
  | "KIT_UNSUPPORTED"
  | "KIT_UNEXPECTED"
  // `@kit/core/config` has its own codes: `ConfigErrorCode`.
  | "KIT_CONFIG_MISSING"
  | "KIT_CONFIG_INVALID"
  | "KIT_CONFIG_CONFLICT"
  | "KIT_CONFIG_LOST"
  | "KIT_COMPONENT_REFUSED";

/**
 * The codes of all packages that a program imports. Each package adds its codes, so comparing with an unknown code does not
 * compile. To add your own: `declare module "@kit/core" { interface KitErrorCodes { yours: "YOURS_A" | "YOURS_B" } }`.
 */
export interface KitErrorCodes {
  core: CoreErrorCode;
}

/** A code of any package that the program imports. */
export type KitErrorCode = KitErrorCodes[keyof KitErrorCodes];

/** The property that holds the brands of an error's classes. All installed copies of this package share it. */
const brands = Symbol.for("kit.error");

type Branded = { readonly [brands]?: readonly string[] };

/**
 * Whether `check` returns true. A check that throws counts as false: a thrown value may be a revoked Proxy, or have getters that
 * throw.
 */
const holds = (check: () => boolean): boolean => {
  try {
    return check();
  } catch {
    return false;
  }
};

/**
 * Whether an error has brands. `in` throws for a value that is not an object. This is outside the class because a bundler renames a
 * class whose body mentions itself.
 */
const isBranded = (error: unknown): error is object & Branded => holds(() => brands in (error as object));

/** The brands of a class and of the classes that it extends. */
const brandsOf = (errorClass: object): readonly string[] => {
  const found: string[] = [];
  for (let one = errorClass; one !== Error; one = Object.getPrototypeOf(one) as object)
    if (Object.hasOwn(one, "brand")) found.push((one as typeof KitError).brand);
  return found;
};

/**
 * The base class of every error that kit raises. Read its fields instead of its message. `cause` is the original error without
 * commands, arguments and credentials.
 */
export class KitError extends Error {
  /**
   * The name of this class and of its errors, the same in every copy of its package. Each kit class declares its name because
   * minifiers change class names.
   */
  static readonly brand: string = "KitError";
  /** Stable across versions; packages add their own codes. */
  readonly code: KitErrorCode;
  /**
   * Whether you can make the same call again, unchanged. It may succeed later, and all the calls together have at most one effect.
   */
  readonly retryable: boolean;
  /** Whether the message quotes text from a handler or from the server. Such text may contain secrets. */
  declare readonly quotesOthers: boolean;

  constructor(
    code: KitErrorCode,
    message: string,
    options: { cause?: unknown; retryable?: boolean; quotesOthers?: boolean } = {},
  ) {
    const { stackTraceLimit } = Error;
    // The default of ten frames often ends inside of kit. `Reflect`, since `Error` may be frozen.
    if (stackTraceLimit > 0) Reflect.set(Error, "stackTraceLimit", stackTraceLimit + 30);
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    Reflect.set(Error, "stackTraceLimit", stackTraceLimit);
    this.name = new.target.brand;
    this.code = code;
    this.retryable = options.retryable ?? false;
    Object.defineProperty(this, "quotesOthers", { value: options.quotesOthers ?? false });
    Object.defineProperty(this, brands, { value: brandsOf(new.target) });
  }

  /**
   * Whether `error` is an instance of this class. Errors from another installed copy count, as do errors from the ESM build when
   * you use the CommonJS build. For a class outside kit that extends this one, `instanceof` works as usual.
   */
  static override [Symbol.hasInstance](error: unknown): boolean {
    if (Function.prototype[Symbol.hasInstance].call(this, error)) return true;
    return Object.hasOwn(this, "brand") && isBranded(error) && error[brands]?.includes(this.brand) === true;
  }

  /** Whether `error` is a kit error, from this or another installed copy of the package. Never throws, whatever you pass. */
  static is(error: unknown): error is KitError {
    return isBranded(error);
  }
}

/**
 * No server answered within the deadline, and nothing was changed. `address` is the server that was tried. Retryable, unless the
 * client has ended or is in subscriber mode.
 */
export class KitUnavailableError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitUnavailableError";
  /** Where the server was expected: `host:port` or a socket path. */
  readonly address: string;

  constructor(message: string, address: string, cause?: unknown, retryable = true) {
    super("KIT_UNAVAILABLE", message, { cause, retryable });
    this.address = address;
  }
}

/**
 * A change was sent, but its reply did not arrive. The change may or may not have been made. If the call accepts an `op`, repeat it
 * with this error's `op`: both calls together have one effect. Without the `op`, a repeated call may have a second effect. A lock
 * and a semaphore undo a failed acquire themselves, so you can just call again. Retryable if the change is idempotent, or if you
 * passed an id such as `op`.
 */
export class KitUnknownOutcomeError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitUnknownOutcomeError";
  /** The operation id of the change, or undefined if it has none. */
  readonly op: string | undefined;

  /** `retryable`: whether the caller's call is idempotent. */
  constructor(message: string, op: string | undefined, cause?: unknown, retryable = false) {
    const hint = op === undefined || retryable ? "" : ". To repeat it, pass the error's `op`";
    super("KIT_UNKNOWN_OUTCOME", message + hint, { cause, retryable });
    this.op = op;
  }
}

/** A key that kit uses holds another type of data. `key` is the key, and `found` is the type. */
export class KitKeyTypeError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitKeyTypeError";
  /** The key, without the client's `keyPrefix`. Undefined if kit could not find out which key it was. */
  readonly key: string | undefined;
  /** The type found there. */
  readonly found: string | undefined;

  constructor(message: string, key: string | undefined, found: string | undefined, cause?: unknown) {
    super("KIT_KEY_TYPE", message, { cause });
    this.key = key;
    this.found = found;
  }
}

/**
 * During every try of an optimistic transaction, until `waitMs` had passed, another client changed a watched key. The transaction
 * changed nothing. `attempts` is the number of tries. Retryable.
 */
export class KitConflictError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitConflictError";
  /** How many tries were made. */
  readonly attempts: number;

  constructor(message: string, attempts: number) {
    super("KIT_CONFLICT", message, { retryable: true });
    this.attempts = attempts;
  }
}

/** The object was closed before or during the call, or its client ended while the call waited. */
export class KitClosedError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitClosedError";

  constructor(what: string) {
    super("KIT_CLOSED", `${what} is closed`);
  }
}

/**
 * Adds the caller's stack to a kit error. Without it, the stack may start at a timer or a socket, which means nothing to the
 * caller. Call this in the `catch` of an async function that awaited the work.
 */
export const withCaller = (error: unknown): unknown => {
  if (!KitError.is(error)) return error;
  const here = { stack: "" };
  Error.captureStackTrace(here, withCaller);
  const { stack = "" } = error;
  const frames = here.stack.split("\n").slice(1);
  // The stack may have a part of these frames already.
  const known = frames.map((frame) => stack.indexOf(frame)).find((at) => at >= 0);
  error.stack = [stack.slice(0, known).trimEnd(), ...frames].join("\n");
  return error;
};

/**
 * A copy of `error` that is safe to log. ioredis adds the command with its arguments to reply errors, including passwords and
 * payloads, and the server quotes the arguments of unknown commands. Never throws. Set `keepsStack` for a bug, where the stack
 * helps most.
 */
export const safeCause = (error: unknown, keepsStack = false): Error => {
  try {
    const origin = error instanceof Error ? error : new Error(String(error));
    const copy = new Error(origin.message.replace(/,? with args beginning with:.*/s, ""));
    copy.name = origin.name;
    const { code } = origin as { code?: unknown };
    if (typeof code === "string") Object.assign(copy, { code });
    // The original stack starts with the unredacted message, and continues inside of a socket handler.
    copy.stack = keepsStack ? origin.stack! : `${copy.name}: ${copy.message}`;
    return copy;
  } catch {
    return new Error("The error cannot be read");
  }
};

/** The error of a node, if a Cluster client wrapped it. Otherwise `error` itself. */
export const originOf = (error: unknown): unknown =>
  (error as { lastNodeError?: unknown } | null)?.lastNodeError ?? error;

/**
 * The reason for an error, to use inside a sentence: its code, such as `ECONNREFUSED`, or its message. Removes the request of
 * ioredis to report a reply that it cannot read, which is usually caused by a wrong port.
 */
export const reasonOf = (error: unknown): string => {
  const cause = safeCause(originOf(error)) as Error & { code?: string };
  return cause.code ?? cause.message.replace(/\.( Please report this\.)?$/, "");
};

/**
 * A script stopped at a key that its node no longer has, because the slot is moving. A script that uses a key again after removing
 * it can stop there after some of its writes.
 */
const brokenOff = /^(ERR )?(Script a|A)ttempted to access a non local key/;

/** Whether a script stopped early, perhaps after some of its writes. */
export const isBrokenOff = (text: string): boolean => brokenOff.test(text);

/**
 * The only list of refusals that are temporary. The server did not execute the command, and accepts it after a failover, a slot
 * move or a long script, or when enough replicas are connected again. Every path that sends commands retries these until its
 * deadline. OOM and MISCONF are not in the list: they last until somebody frees memory or disk.
 */
const passing = /^(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|NOREPLICAS)\b/;

/** Whether a reply, as {@link replyOf} returns it, is a temporary refusal. */
export const isPassing = (text: string): boolean => passing.test(text) || isBrokenOff(text);

/** Whether a call failed because of a temporary refusal. */
export const passes = (error: unknown): boolean => {
  if (isReplyError(error)) return isPassing(replyOf(error.message));
  const { cause, retryable } = (error ?? {}) as { cause?: unknown; retryable?: unknown };
  // Only a Cluster client can follow a slot.
  return retryable === true && cause instanceof Error && isPassing(replyOf(cause.message));
};

/**
 * Whether a call failed because the slot of its keys is moving, or has just moved. The failure ends when all keys have moved,
 * unless the client cannot follow.
 */
export const isSlotMoving = (error: unknown): boolean => {
  const { cause, retryable } = (error ?? {}) as { cause?: unknown; retryable?: unknown };
  const text = replyOf(cause instanceof Error ? cause.message : "");
  return /^(TRYAGAIN|ASK)\b/.test(text) || (/^MOVED\b/.test(text) && retryable !== false) || isBrokenOff(text);
};

/** The second and third alternatives are replies inside a script: up to Redis 7.0, and in later versions. */
const forbidden = /^(NOPERM\b|(ERR )?The user executing the script|ACL failure in script)/;

const serverCodes: readonly (readonly [RegExp, CoreErrorCode, string, boolean])[] = [
  [/^OOM\b/, "KIT_SERVER_FULL", "the server is out of memory. Free some, or raise maxmemory", true],
  [
    /^READONLY\b/,
    "KIT_READONLY",
    "the server is a read-only replica. Use `connect()`, `isolate` or `reconnectOnError`",
    true,
  ],
  [/^(LOADING|MASTERDOWN)\b/, "KIT_LOADING", "the server does not serve its data yet", true],
  [/^(BUSY|UNKILLABLE)\b/, "KIT_BUSY", "the server runs a long script", true],
  [/^(TRYAGAIN|ASK)\b/, "KIT_CLUSTER", "the slot of its keys is moving to another Cluster node", true],
  [
    brokenOff,
    "KIT_CLUSTER",
    "some of its changes may be made: the slot of its keys is moving to another Cluster node",
    true,
  ],
  [/^(CLUSTERDOWN|MOVED)\b/, "KIT_CLUSTER", "the Cluster does not serve its keys. See CLUSTER INFO", true],
  [
    /^(CROSSSLOT|(ERR )?Script attempted to access)/,
    "KIT_CLUSTER",
    "its keys are in several slots of the Cluster. Use one {hash tag}",
    false,
  ],
  [/^NOREPLICAS\b/, "KIT_SERVER", "the server has too few replicas. Add one, or lower min-replicas-to-write", true],
  [/^MISCONF\b/, "KIT_SERVER", "the server cannot save to disk. See its log, or stop-writes-on-bgsave-error", true],
  [
    /^NOAUTH\b/,
    "KIT_AUTH",
    "the server requires a password. Set it in the address: redis://:PASSWORD@HOST:PORT",
    false,
  ],
  [/^(WRONGPASS|ERR invalid password)/, "KIT_AUTH", "the server rejected the credentials", false],
  [forbidden, "KIT_NO_PERMISSION", "the ACL user has no permission. See ACL LOG", false],
  [/^NOSCRIPT\b/, "KIT_NOSCRIPT", "the server lost the script", true],
  [/^KIT_LAYOUT\b/, "KIT_LAYOUT", "its data is damaged or from a newer version", false],
];

/**
 * The server's own words, without the text around them. Only these words identify a reply. Redis 6.2 wraps an error inside a
 * script: `ERR Error running script (call to f_…): @user_script:5: -OOM …`. Later versions append `script: …, on @user_script:5.`,
 * and Valkey 9 appends `script: on @user_script:5.` A proxy puts `ERR` before a code.
 */
export const replyOf = (message: string): string =>
  message
    .replace(/^ERR Error running script.*?@user_script: ?\d+: -?(?=[A-Z])/s, "")
    .replace(/ script: (\S+, )?on @.*$/s, "")
    .replace(/^ERR (?=[A-Z_]{3,}\b)/, "");

export const isReplyError = (error: unknown): error is Error =>
  holds(() => error instanceof Error && error.name === "ReplyError");

/** Whether the server will refuse the command again: the user has no permission, or the command does not exist. */
export const isForbidden = (error: unknown): boolean => {
  const reply = isReplyError(error) ? replyOf(error.message) : "";
  return forbidden.test(reply) || /^ERR unknown (sub)?command/i.test(reply);
};

/** A typed error for the server's reply to `what`. The caller handles WRONGTYPE because it has the keys. */
export const serverError = (error: Error, what: string): KitError => {
  const reply = replyOf(error.message);
  const cause = safeCause(error);
  for (const [pattern, code, reason, retryable] of serverCodes)
    if (pattern.test(reply)) return new KitError(code, `${what} failed: ${reason}`, { cause, retryable });
  return new KitError("KIT_SERVER", `${what} failed: ${replyOf(cause.message)}`, { cause, quotesOthers: true });
};

/**
 * Converts any error to a kit error, for objects that emit `error` or check `retryable`. A server reply gets its code. Any other
 * error is a bug in kit or in the program. It counts as retryable, because background work must not stop silently. Never throws.
 */
export const asKitError = (error: unknown, what: string): KitError => {
  if (KitError.is(error)) return error;
  if (isReplyError(error)) return serverError(error, what);
  const cause = safeCause(error, true);
  return new KitError("KIT_UNEXPECTED", `${what} failed: ${cause.message}`, {
    cause,
    retryable: true,
    quotesOthers: true,
  });
};
