/**
 * Codes of errors that any kit package can raise. They are stable; messages are not. These codes have no class of their own:
 *
 * - `KIT_SERVER_FULL`: the server is at `maxmemory`. Retryable
 * - `KIT_READONLY`: the server is a replica. Retryable
 * - `KIT_LOADING`: the server does not serve its data yet. Retryable
 * - `KIT_BUSY`: the server runs a long script. Retryable
 * - `KIT_CLUSTER`: the Cluster is down, the slot of the keys is moving, or the keys lie in several slots. Retryable, except for
 *   keys in several slots
 * - `KIT_AUTH`: the server refused the credentials, or requires some
 * - `KIT_NO_PERMISSION`: the ACL user may not run a command, or use a key or a channel
 * - `KIT_NOSCRIPT`: the server lost a script between two tries. Retryable
 * - `KIT_LAYOUT`: a newer major version of the package wrote the data, or the data is damaged
 * - `KIT_NAME`: a name is empty, longer than 512 bytes, or not well-formed Unicode
 * - `KIT_TARGET`: `connect()` cannot parse an address, or the server does not have the database of the address. The message never
 *   has a password
 * - `KIT_RECOVERED`: an `error` event that reports the end of a failure: background work that had emitted an error works again.
 *   `cause` is the first failure
 * - `KIT_SERVER`: any other error of the server. Retryable if the server refuses writes (`NOREPLICAS`, `MISCONF`). A script or an
 *   EXEC that failed on the way may have made a part of its writes
 * - `KIT_UNSUPPORTED`: the client cannot do this: a client over HTTP has no connections, and sends text only. Or `connect()` finds no
 *   ioredis. Nothing was sent
 * - `KIT_UNEXPECTED`: an error that is neither kit's nor the server's: a fault in kit, or in the program. `cause` is that
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
  // Those of `@kit/core/config`: `ConfigErrorCode`.
  | "KIT_CONFIG_MISSING"
  | "KIT_CONFIG_INVALID"
  | "KIT_CONFIG_CONFLICT"
  | "KIT_CONFIG_LOST"
  | "KIT_COMPONENT_REFUSED";

/**
 * The codes of all packages that a program imports. Each package adds its own, so a comparison with any other code does not
 * compile. `declare module "@kit/core" { interface KitErrorCodes { yours: "YOURS_A" | "YOURS_B" } }` adds codes.
 */
export interface KitErrorCodes {
  core: CoreErrorCode;
}

/** A code of any package that the program imports. */
export type KitErrorCode = KitErrorCodes[keyof KitErrorCodes];

/** The property with the brands of an error's classes; shared by all installed copies of this package. */
const brands = Symbol.for("kit.error");

type Branded = { readonly [brands]?: readonly string[] };

/** Whether `check` holds; false if it throws: a thrown value may be a revoked Proxy, or have getters that throw. */
const holds = (check: () => boolean): boolean => {
  try {
    return check();
  } catch {
    return false;
  }
};

/** Whether an error has brands at all; for a value that is no object `in` throws. Outside of the class: a bundler renames a class whose body mentions itself. */
const isBranded = (error: unknown): error is object & Branded => holds(() => brands in (error as object));

/** The brands of a class and of those that it extends. */
const brandsOf = (errorClass: object): readonly string[] => {
  const found: string[] = [];
  for (let one = errorClass; one !== Error; one = Object.getPrototypeOf(one) as object)
    if (Object.hasOwn(one, "brand")) found.push((one as typeof KitError).brand);
  return found;
};

/**
 * The base of every error that kit raises. Its facts are fields. `cause` is the original error without commands, arguments
 * and credentials.
 */
export class KitError extends Error {
  /**
   * The name of this class and of its errors, the same in every copy of its package. Each class of kit declares it, since a
   * minifier changes class names.
   */
  static readonly brand: string = "KitError";
  /** Stable across versions; packages add their own codes. */
  readonly code: KitErrorCode;
  /** Whether to make the same call again, unchanged: it may succeed later, and all of them together have at most one effect. */
  readonly retryable: boolean;
  /** Whether the message repeats words that are not kit's: of a handler, or of the server. They may contain secrets. */
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
   * Whether `error` is an instance of this class, also when it comes from another installed copy, or from the ESM build
   * beside the CommonJS build. A class outside of kit that extends this one keeps the ordinary meaning.
   */
  static override [Symbol.hasInstance](error: unknown): boolean {
    if (Function.prototype[Symbol.hasInstance].call(this, error)) return true;
    return Object.hasOwn(this, "brand") && isBranded(error) && error[brands]?.includes(this.brand) === true;
  }

  /** Whether `error` is kit's, also when it comes from another installed copy of this package. Never throws, whatever it is. */
  static is(error: unknown): error is KitError {
    return isBranded(error);
  }
}

/**
 * No server answered within the deadline, and nothing was changed. `address` is the server that was tried. Retryable, unless the
 * client has ended or is subscribed.
 */
export class KitUnavailableError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitUnavailableError";
  /** Where the server was expected: `host:port` or a socket's path. */
  readonly address: string;

  constructor(message: string, address: string, cause?: unknown, retryable = true) {
    super("KIT_UNAVAILABLE", message, { cause, retryable });
    this.address = address;
  }
}

/**
 * A change was sent, but its reply did not arrive: the change may or may not have been made. Where the call takes an `op`, repeat it
 * with the `op` of this error: they have one effect together, while the same call without it may have a second one. A lock and a
 * semaphore undo the acquire themselves, so call it again. Retryable if the same call has one effect however often it is made: the
 * change is idempotent, or you gave it an id, such as `op`.
 */
export class KitUnknownOutcomeError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitUnknownOutcomeError";
  /** The operation id of the change; undefined: it has none. */
  readonly op: string | undefined;

  /** `retryable`: whether the same call of the caller has one effect however often it is made. */
  constructor(message: string, op: string | undefined, cause?: unknown, retryable = false) {
    const hint = op === undefined || retryable ? "" : "; to repeat it, pass the `op` of this error";
    super("KIT_UNKNOWN_OUTCOME", message + hint, { cause, retryable });
    this.op = op;
  }
}

/** A key of a kit script holds another type of data. `key` names it, and `found` the type. */
export class KitKeyTypeError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitKeyTypeError";
  /** The key, without the client's `keyPrefix`; undefined when it could not be found out. */
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
 * Other writers changed a watched key during every try of an optimistic transaction, until `waitMs` was over. The transaction
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

/** The object was closed before the call or during it, or its client ended while a call waited. */
export class KitClosedError extends KitError {
  /** @internal */
  static override readonly brand: string = "KitClosedError";

  constructor(what: string) {
    super("KIT_CLOSED", `${what} is closed`);
  }
}

/**
 * Makes the stack of a kit error end at its call: the error may come from a timer or a socket, which mean nothing to the
 * caller. Call it in the `catch` of an async function that awaited the work.
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
 * A copy of `error` that is safe to log. ioredis adds the command with its arguments to reply errors (passwords and payloads
 * among them), and the server quotes arguments of unknown commands. Never throws.
 * `keepsStack`: the place of a fault says most about it.
 */
export const safeCause = (error: unknown, keepsStack = false): Error => {
  try {
    const origin = error instanceof Error ? error : new Error(String(error));
    const copy = new Error(origin.message.replace(/,? with args beginning with:.*/s, ""));
    copy.name = origin.name;
    const { code } = origin as { code?: unknown };
    if (typeof code === "string") Object.assign(copy, { code });
    // The original stack begins with the unredacted message, and continues inside of a socket handler.
    copy.stack = keepsStack ? origin.stack! : `${copy.name}: ${copy.message}`;
    return copy;
  } catch {
    return new Error("The error cannot be read");
  }
};

/** The error of a node, which a Cluster client wraps. */
export const originOf = (error: unknown): unknown =>
  (error as { lastNodeError?: unknown } | null)?.lastNodeError ?? error;

/**
 * The reason of an error as a part of a sentence: its code, as `ECONNREFUSED`, or its message. ioredis requests a report of every
 * reply that it cannot read, and a wrong port is the usual cause.
 */
export const reasonOf = (error: unknown): string => {
  const cause = safeCause(originOf(error)) as Error & { code?: string };
  return cause.code ?? cause.message.replace(/\.( Please report this\.)?$/, "");
};

/**
 * A script ended at a key that its node no longer has, since the slot is moving. A script that uses a key again after it
 * removed it can end there after some of its writes.
 */
const brokenOff = /^(ERR )?(Script a|A)ttempted to access a non local key/;

/** Whether a script ended before its end, perhaps after some of its writes. */
export const isBrokenOff = (text: string): boolean => brokenOff.test(text);

/**
 * The one list of refusals that pass by themselves: the server did not execute the command, and will when a failover, a move of
 * a slot or a long script is over, or when enough replicas are connected again. Every path that sends commands tries these again until
 * its deadline. OOM and MISCONF are not among them: they last until somebody frees memory or disk.
 */
const passing = /^(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|NOREPLICAS)\b/;

/** Whether a reply, as {@link replyOf} gives it, is a refusal that passes by itself. */
export const isPassing = (text: string): boolean => passing.test(text) || isBrokenOff(text);

/** Whether a call failed by a refusal that passes by itself. */
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

/** The second and third form are replies inside of a script: up to Redis 7.0, and since then. */
const forbidden = /^(NOPERM\b|(ERR )?The user executing the script|ACL failure in script)/;

const serverCodes: readonly (readonly [RegExp, CoreErrorCode, string, boolean])[] = [
  [/^OOM\b/, "KIT_SERVER_FULL", "the server is at its memory limit (maxmemory)", true],
  [
    /^READONLY\b/,
    "KIT_READONLY",
    "the server is a read-only replica (`connect()`, `isolate`, `reconnectOnError` leave it)",
    true,
  ],
  [/^(LOADING|MASTERDOWN)\b/, "KIT_LOADING", "the server is not serving its data yet", true],
  [/^(BUSY|UNKILLABLE)\b/, "KIT_BUSY", "the server is busy with a long script", true],
  [/^(TRYAGAIN|ASK)\b/, "KIT_CLUSTER", "the slot of its keys is moving to another node of the Cluster", true],
  [
    brokenOff,
    "KIT_CLUSTER",
    "the slot of its keys is moving to another node of the Cluster, and it may be done in part",
    true,
  ],
  [/^(CLUSTERDOWN|MOVED)\b/, "KIT_CLUSTER", "the Cluster could not serve it", true],
  [
    /^(CROSSSLOT|(ERR )?Script attempted to access)/,
    "KIT_CLUSTER",
    "its keys lie in several slots of the Cluster",
    false,
  ],
  [/^NOREPLICAS\b/, "KIT_SERVER", "the server refuses writes (more replicas, or a lower min-replicas-to-write)", true],
  [/^MISCONF\b/, "KIT_SERVER", "the server refuses writes (see its log, or stop-writes-on-bgsave-error)", true],
  [
    /^NOAUTH\b/,
    "KIT_AUTH",
    "the server requires a password, and the address has none: redis://:PASSWORD@HOST:PORT",
    false,
  ],
  [/^(WRONGPASS|ERR invalid password)/, "KIT_AUTH", "the server refused the credentials", false],
  [forbidden, "KIT_NO_PERMISSION", "the ACL user is not permitted to do this", false],
  [/^NOSCRIPT\b/, "KIT_NOSCRIPT", "the server lost the script between two tries", true],
  [
    /^KIT_LAYOUT\b/,
    "KIT_LAYOUT",
    "its data has an unsupported layout: a newer version wrote it, or it is damaged",
    false,
  ],
];

/**
 * The server's own words, without the text around them; only these words identify a reply. Redis 6.2 wraps an error inside a
 * script into `ERR Error running script (call to f_…): @user_script:5: -OOM …`; later versions append `script: …, on
 * @user_script:5.`, Valkey 9 `script: on @user_script:5.` A proxy puts `ERR` before a code.
 */
export const replyOf = (message: string): string =>
  message
    .replace(/^ERR Error running script.*?@user_script: ?\d+: -?(?=[A-Z])/s, "")
    .replace(/ script: (\S+, )?on @.*$/s, "")
    .replace(/^ERR (?=[A-Z_]{3,}\b)/, "");

export const isReplyError = (error: unknown): error is Error =>
  holds(() => error instanceof Error && error.name === "ReplyError");

/** Whether the server will refuse it again: the user is not permitted to do it, or the command does not exist. */
export const isForbidden = (error: unknown): boolean => {
  const reply = isReplyError(error) ? replyOf(error.message) : "";
  return forbidden.test(reply) || /^ERR unknown (sub)?command/i.test(reply);
};

/** A typed error for the server's reply to `what`. The caller handles WRONGTYPE, since it has the keys. */
export const serverError = (error: Error, what: string): KitError => {
  const reply = replyOf(error.message);
  const cause = safeCause(error);
  for (const [pattern, code, reason, retryable] of serverCodes)
    if (pattern.test(reply)) return new KitError(code, `${what} failed: ${reason}`, { cause, retryable });
  return new KitError("KIT_SERVER", `${what} failed: ${replyOf(cause.message)}`, { cause, quotesOthers: true });
};

/**
 * Any error as a kit error, for objects that emit `error` or decide by `retryable`. A reply of the server gets its code. Any
 * other error is a fault of kit, or of the program, and counts as retryable: background work must not stop silently. Never throws.
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
