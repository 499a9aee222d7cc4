import { KitError } from "@kit/core";
import { asKitError } from "@kit/core/toolkit";

/** Codes of this package's own errors. */
export type LogshipErrorCode =
  | "KIT_LOGSHIP_FENCED"
  | "KIT_LOGSHIP_RESET"
  | "KIT_LOGSHIP_CHANGED"
  | "KIT_LOGSHIP_CHANNEL_CLOSED"
  | "KIT_LOGSHIP_TRIMMED"
  | "KIT_LOGSHIP_TOO_LARGE"
  | "KIT_LOGSHIP_EXPIRED"
  | "KIT_LOGSHIP_INTERRUPTED"
  | "KIT_LOGSHIP_BAD_DATA"
  | "KIT_LOGSHIP_BROKEN_OFF"
  | "KIT_LOGSHIP_LINE"
  | "KIT_LOGSHIP_DROPPED"
  | "KIT_LOGSHIP_BUSY"
  | "KIT_LOGSHIP_RESULT";

declare module "@kit/core" {
  interface KitErrorCodes {
    logship: LogshipErrorCode;
  }
}

/**
 * A failure of shipping, receiving or processing. `code` names the failure, and `file` names the file.
 *
 * - `KIT_LOGSHIP_FENCED`: another process took over the file, or works as this consumer. Uncommitted work of this process had no effect
 * - `KIT_LOGSHIP_RESET`: Redis lost data that it had confirmed, or the channel was deleted. A new run starts with the data that Redis has
 *   now
 * - `KIT_LOGSHIP_CHANGED`: a source was truncated or overwritten after a part of it was processed or shipped, or has grown since it was
 *   shipped
 * - `KIT_LOGSHIP_CHANNEL_CLOSED`: the channel is closed and accepts no more files
 * - `KIT_LOGSHIP_TRIMMED`: a new consumer cannot get everything, because chunks were freed before it joined. Choose another `from`, or list
 *   the consumer in the shipper's `consumers`
 * - `KIT_LOGSHIP_TOO_LARGE`: a passed-through file, or a single chunk, does not fit under the channel's limit. Raise the limit with
 *   `setLimit()`
 * - `KIT_LOGSHIP_EXPIRED`: the memory reserved for chunks expired before they were committed. kit writes them again. Only in `error` events
 * - `KIT_LOGSHIP_INTERRUPTED`: a failover lost a confirmed part of a stream, and a stream cannot be read again
 * - `KIT_LOGSHIP_BROKEN_OFF`: a file in the channel ends before the end of its source. Only in `damaged` events
 * - `KIT_LOGSHIP_DROPPED`: this consumer was removed from the channel, and its name cannot be used there again
 * - `KIT_LOGSHIP_BUSY`: a job cannot be deleted while a worker has a file. End the job's runs; after a crash, wait until `leaseMs` has
 *   passed
 * - `KIT_LOGSHIP_RESULT`: a result cannot be stored, because its key has another type or its field is not an integer of up to 15 digits.
 *   The commit, or the affected piece of a large commit, was not applied
 */
export class LogshipError extends KitError {
  /** @internal */
  static override readonly brand: string = "LogshipError";
  declare readonly code: LogshipErrorCode;
  /** The file's name, or undefined if the failure is not about one file. */
  readonly file: string | undefined;

  constructor(
    code: LogshipErrorCode,
    message: string,
    { file, cause, retryable }: { file?: string | undefined; cause?: unknown; retryable?: boolean } = {},
  ) {
    super(code, message, { cause, retryable: retryable ?? false });
    this.file = file;
  }
}

/**
 * A chunk is damaged or missing, or gzip content is damaged, cut off or in another format. Nothing after `offset` was delivered.
 * `onBadData` controls how a run handles this error.
 */
export class BadDataError extends LogshipError {
  /** @internal */
  static override readonly brand: string = "BadDataError";
  /** Stored bytes before the damage, or before the damaged chunk. */
  readonly offset: number;
  /** The chunk's ordinal, or undefined for a local file. */
  readonly chunk: number | undefined;

  constructor(reason: string, at: { file?: string | undefined; offset: number; chunk?: number | undefined }) {
    const { file, offset, chunk } = at;
    const where = [
      ...(file === undefined ? [] : [`file ${JSON.stringify(file)}`]),
      ...(chunk === undefined ? [] : [`chunk ${String(chunk)}`]),
      `stored byte ${String(offset)}`,
    ].join(", ");
    super("KIT_LOGSHIP_BAD_DATA", `${reason} (${where})`, { file });
    this.offset = offset;
    this.chunk = chunk;
  }
}

/** `onLongLine` or `onInvalidText` rejected a line, or the text is UTF-16. The lines before it were delivered. */
export class LineError extends LogshipError {
  /** @internal */
  static override readonly brand: string = "LineError";
  /** Text bytes before the line. */
  readonly offset: number;

  constructor(reason: string, offset: number) {
    super("KIT_LOGSHIP_LINE", `${reason} (text byte ${String(offset)})`);
    this.offset = offset;
  }
}

/** The payload of the event `damaged`. */
export const damageOf = (file: string, error: unknown): { readonly file: string; readonly error: KitError } => ({
  file,
  error: asKitError(error, file),
});

export const hasCode = (error: unknown, code: LogshipErrorCode): error is LogshipError =>
  error instanceof LogshipError && error.code === code;

/** Whether the error is about one file's content, so that work on other files can continue. */
export const isAboutContent = (error: unknown): error is Error & { readonly code: string } =>
  aboutContent.has(String((error as { code?: unknown } | null)?.code));

const aboutContent: ReadonlySet<string> = new Set([
  "EACCES",
  "EPERM",
  "EIO",
  "KIT_LOGSHIP_BAD_DATA",
  "KIT_LOGSHIP_LINE",
  "KIT_LOGSHIP_CHANGED",
  "KIT_LOGSHIP_TOO_LARGE",
]);

/** A failover lost data: the server no longer has the last commits and their results, or the chunks that were read. */
export class RolledBack extends LogshipError {
  constructor(file: string) {
    super("KIT_LOGSHIP_RESET", "The server lost confirmed commits. kit repeats them", { file });
  }
}

/** A result was rejected. Nothing of its commit was applied. */
export const resultError = (fault: string, targets: readonly string[]): LogshipError => {
  const [kind, number] = fault.split(" ");
  const key = targets[Number(number) - 1] ?? "a result";
  const reason =
    kind === "type" ? "holds another type of data" : "has a field that is not an integer of up to 15 digits";
  return new LogshipError("KIT_LOGSHIP_RESULT", `The results were not stored: ${key} ${reason}`);
};

export const fencedError = (what: string, file?: string): LogshipError =>
  new LogshipError("KIT_LOGSHIP_FENCED", `${what} was taken over by another process`, { file });

export const resetError = (what: string, file?: string): LogshipError =>
  new LogshipError(
    "KIT_LOGSHIP_RESET",
    `${what} has lost confirmed data in Redis: the server lost it, or somebody deleted it`,
    {
      file,
    },
  );
