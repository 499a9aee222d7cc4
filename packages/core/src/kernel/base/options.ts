/** How a package attaches to a client. */
export interface AttachOptions {
  /**
   * The beginning of all keys and channels. Objects with different prefixes share nothing.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * Works on a duplicate of the client instead of the client itself. That costs a connection; in return a connection that
   * goes silent is replaced, which core never does to the caller's own client. The duplicate ends for good when the client
   * is ended.
   *
   * @default false
   */
  readonly isolate?: boolean | undefined;
}

/** How an object works on its client: the options that every package has. */
export interface ClientOptions extends AttachOptions {
  /**
   * Every single command settles within this many milliseconds, whatever the network does: 1 to 86,400,000 (a day).
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
}

/** Checked, with every default filled in. */
export interface ClientSettings {
  readonly prefix: string;
  readonly isolate: boolean;
  readonly deadlineMs: number;
}

/** How long `close()` may take. */
export interface CloseOptions {
  /**
   * How long to wait for what is under way, in milliseconds: 0 to 86,400,000 (a day). Then it is ended, which may take one
   * more command.
   *
   * @default 10000
   */
  readonly timeoutMs?: number | undefined;
}

const dayMs = 86_400_000;

const show = (value: unknown): string => {
  if (value === null) return "`null` (null)";
  // An object's own text may be anything, a secret too.
  const isPlain = typeof value !== "object" && typeof value !== "function";
  const text =
    typeof value === "string"
      ? JSON.stringify(value)
      : isPlain
        ? String(value as number | bigint | symbol | undefined)
        : Object.prototype.toString.call(value);
  return `\`${text.length > 80 ? `${text.slice(0, 80)}…` : text}\` (${typeof value})`;
};

const wrong = (name: string, wanted: string, value: unknown, isRightType = false): Error =>
  new (isRightType ? RangeError : TypeError)(`Expected \`${name}\` to be ${wanted}, got ${show(value)}`);

/**
 * Checks an option that must be an integer in a range, and returns it.
 *
 * @throws {TypeError} it is not a number.
 * @throws {RangeError} it is not an integer, or out of range.
 */
export const integerOption = (
  name: string,
  value: unknown,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): number => {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return value as number;
  const end = max === Number.MAX_SAFE_INTEGER ? "" : ` to ${String(max)}`;
  throw wrong(name, `an integer from ${String(min)}${end}`, value, typeof value === "number");
};

/** @throws {TypeError} it is not a boolean. */
export const booleanOption = (name: string, value: unknown): boolean => {
  if (typeof value !== "boolean") throw wrong(name, "a boolean", value);
  return value;
};

/**
 * @throws {TypeError} it is not text.
 * @throws {RangeError} it is empty or longer than `maxLength` characters.
 */
export const textOption = (name: string, value: unknown, maxLength: number): string => {
  if (typeof value !== "string") throw wrong(name, "a string", value);
  if (value.length === 0 || value.length > maxLength)
    throw new RangeError(
      `Expected \`${name}\` to have 1 to ${String(maxLength)} characters, got ${String(value.length)}`,
    );
  return value;
};

/** @throws {TypeError} it is neither undefined nor an AbortSignal. */
export const signalOption = (name: string, value: unknown): AbortSignal | undefined => {
  if (value !== undefined && !(value instanceof AbortSignal)) throw wrong(name, "an AbortSignal", value);
  return value;
};

/** @throws {TypeError} it is not a client that kit can use. */
export const assertClient = (name: string, value: unknown): void => {
  const client = value as { call?: unknown; duplicate?: unknown; on?: unknown } | null | undefined;
  if (typeof client?.call !== "function" || typeof client.duplicate !== "function" || typeof client.on !== "function")
    throw wrong(name, "an ioredis Redis or Cluster", value);
};

/**
 * Checks what is given as options: an object with no name that means nothing. A misspelt option would otherwise be
 * ignored without a word. Returns a copy that has no prototype: what somebody put on `Object.prototype` is no option.
 *
 * @throws {TypeError} it is not an object, or has other names than `known`.
 */
export const optionsObject = <T extends object>(name: string, value: T, known: readonly string[]): T => {
  const given: unknown = value;
  if (typeof given !== "object" || given === null || Array.isArray(given)) throw wrong(name, "an object", given);
  for (const key of Object.keys(given))
    if (!known.includes(key))
      throw new TypeError(`Expected \`${name}\` to have only ${known.join(", ")}; got ${show(key)} besides`);
  return Object.assign(Object.create(null) as T, value);
};

/**
 * Checks an option that must be one of a few texts, and returns it.
 *
 * @throws {TypeError} it is not text.
 * @throws {RangeError} it is none of them.
 */
export const choiceOption = <const T extends string>(name: string, value: unknown, choices: readonly T[]): T => {
  const found = choices.find((choice) => choice === value);
  if (found !== undefined) return found;
  const wanted = choices.map((choice) => JSON.stringify(choice)).join(" or ");
  throw wrong(name, wanted, value, typeof value === "string");
};

/** The names of {@link ClientOptions}, for `optionsObject`. */
export const clientOptionNames: readonly string[] = ["prefix", "isolate", "deadlineMs"];

/**
 * The {@link ClientOptions} among checked options. `attach()` checks the prefix.
 *
 * @throws {TypeError | RangeError} an option is not what it should be.
 */
export const clientSettings = ({
  prefix = "kit",
  isolate = false,
  deadlineMs = 2_000,
}: ClientOptions): ClientSettings => ({
  prefix,
  isolate: booleanOption("isolate", isolate),
  deadlineMs: integerOption("deadlineMs", deadlineMs, 1, dayMs),
});

/**
 * The options given to `close(options)`.
 *
 * @throws {TypeError | RangeError} it is not what it should be.
 */
export const closeTimeoutMs = (options: CloseOptions): number => {
  const { timeoutMs = 10_000 } = optionsObject("options", options, ["timeoutMs"]);
  return integerOption("timeoutMs", timeoutMs, 0, dayMs);
};
