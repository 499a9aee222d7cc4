import { KitError } from "@kit/core";
import { asKitError } from "@kit/core/toolkit";

/**
 * Codes of this package's own errors.
 *
 * - `KIT_LOGSHIP_FENCED`: another process took over this file, or works as this consumer
 * - `KIT_LOGSHIP_RESET`: Redis lost data that it had confirmed, or the channel was deleted
 * - `KIT_LOGSHIP_CHANGED`: a source is not what it was when a part of it was processed or shipped
 * - `KIT_LOGSHIP_CHANNEL_CLOSED`: the channel takes no further files
 * - `KIT_LOGSHIP_TRIMMED`: a new consumer cannot have everything: chunks were freed before it joined
 * - `KIT_LOGSHIP_TOO_LARGE`: a passed-through file would never fit under the limit of the channel
 * - `KIT_LOGSHIP_EXPIRED`: a reservation ended before its chunks were committed; they are being written again (only in `error` events)
 * - `KIT_LOGSHIP_INTERRUPTED`: a stream cannot be read again from its beginning, and a part of what was confirmed is lost
 * - `KIT_LOGSHIP_BAD_DATA`: a chunk is damaged or missing, or gzip content is damaged or ends early
 * - `KIT_LOGSHIP_BROKEN_OFF`: a file in the channel ends before the end of its source (only in `damaged` events)
 * - `KIT_LOGSHIP_LINE`: a line is too long, or is not UTF-8, and the policy is to reject
 * - `KIT_LOGSHIP_DROPPED`: this consumer was removed from the channel; its name cannot be used there again
 * - `KIT_LOGSHIP_BUSY`: a job cannot be deleted while a worker has a file
 * - `KIT_LOGSHIP_RESULT`: a result cannot be stored: its key has another type, or its field is no integer
 */
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

/** A failure of shipping, receiving or processing; `code` names it. */
export class LogshipError extends KitError {
  /** @internal */
  static override readonly brand: string = "LogshipError";
  declare readonly code: LogshipErrorCode;
  /** The file's name, where it is about one. */
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

/** Stored content is damaged or missing. Nothing behind `offset` was delivered. */
export class BadDataError extends LogshipError {
  /** @internal */
  static override readonly brand: string = "BadDataError";
  /** Stored bytes before the damage, as far as it is known. */
  readonly offset: number;
  /** Ordinal of the chunk, where chunks are read. */
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

/** A line is refused by policy. Lines before it were delivered. */
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

/** The facts of the event `damaged`. */
export const damageOf = (file: string, error: unknown): { readonly file: string; readonly error: KitError } => ({
  file,
  error: asKitError(error, file),
});

/** Whether the error concerns one file alone, which is damaged or has changed, so that others can go on. */
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
    super("KIT_LOGSHIP_RESET", "The server has lost its last commits, which are to be repeated", { file });
  }
}

/** A result was refused; nothing of its commit was applied. */
export const resultError = (fault: string, targets: readonly string[]): LogshipError => {
  const [kind, number] = fault.split(" ");
  const key = targets[Number(number) - 1] ?? "a result";
  const reason = kind === "type" ? "holds another type of data" : "has a field that is no integer of up to 15 digits";
  return new LogshipError("KIT_LOGSHIP_RESULT", `The results were not stored: ${key} ${reason}`);
};

export const fencedError = (what: string, file?: string): LogshipError =>
  new LogshipError("KIT_LOGSHIP_FENCED", `${what} was taken over by another process`, { file });

export const resetError = (what: string, file?: string): LogshipError =>
  new LogshipError("KIT_LOGSHIP_RESET", `${what} is not in Redis as it was confirmed: data was lost or deleted`, {
    file,
  });
