import { createHash } from "node:crypto";
import { KitUnknownOutcomeError } from "@kit/core";
import { onAbort } from "@kit/core/toolkit";
import { changedError } from "../bytes/files.js";
import { crcOf } from "../bytes/crc.js";
import { isAboutContent, LogshipError } from "../errors.js";
import type { ResolvedShipper } from "../options.js";
import type { Opened } from "../scripts/index.js";
import { Watch } from "../signals.js";
import type { Shipping } from "./commands.js";
import { type Chunk, Framer } from "./framing.js";
import type { SpaceEvents } from "./reservation.js";
import { bytesOf, type Source } from "./source.js";
import { type CommittedPart, RewindNeeded, Upload } from "./upload.js";

/** The progress of shipping a file. */
export interface ShipProgress {
  readonly file: string;
  /** Text bytes committed; 0 for passed-through gzip content. */
  readonly textBytes: number;
  /** Stored bytes committed. */
  readonly storedBytes: number;
  readonly lines: number;
  /** Committed bytes of the source, and its size. The size of a stream is unknown. */
  readonly doneBytes: number;
  readonly totalBytes: number | undefined;
}

/** A file that is completely in the channel. */
export interface ShippedFile {
  readonly id: number;
  readonly name: string;
  /** Text bytes; 0 for passed-through gzip content. */
  readonly textBytes: number;
  readonly storedBytes: number;
  /** Line feeds; 0 for passed-through gzip content. */
  readonly lines: number;
  /** SHA-256 in hexadecimal, of the text, or of the stored bytes of passed-through gzip content. */
  readonly sha256: string;
  /** Whether the file had been shipped before this call. */
  readonly wasShipped: boolean;
}

/** Called while a source is shipped. */
export interface TransferEvents extends SpaceEvents {
  /** The channel has this limit. */
  readonly opened: (limitBytes: number) => void;
  readonly progress: (fact: ShipProgress) => void;
}

/** Ships a source to its end, and seals its file. After a loss of confirmed data it starts again, if the source can be read again. */
export const transfer = async (source: Source, how: Shipping, events: TransferEvents): Promise<ShippedFile> => {
  const { connection, settings, signal } = how;
  for (let hasBegun = source.isFurther; ; hasBegun = true) {
    const upload = uploadOf(source, how, events);
    const open = (): Promise<Opened> => upload.open();
    const opened = await (hasBegun ? connection.persist(open, signal) : open().catch(refusedFor(source)));
    events.opened(opened.limitBytes);
    if (opened.state === "done") return await shippedBefore(source, opened, signal);
    try {
      return await shipRest(source, upload, how);
    } catch (error) {
      if (error instanceof RewindNeeded && source.isRepeatable) continue;
      const fault = faultOf(source, settings, error);
      if (fault !== undefined) await upload.breakOff(fault);
      if (!(error instanceof RewindNeeded)) throw error;
      const message = `Redis lost a part of ${JSON.stringify(source.name)}, and a stream cannot be read again. Ship it under a new name`;
      throw new LogshipError("KIT_LOGSHIP_INTERRUPTED", message, { file: source.name });
    } finally {
      await upload.leave();
    }
  }
};

const uploadOf = (source: Source, how: Shipping, events: TransferEvents): Upload => {
  const { id, name, codec, totalBytes } = source;
  const committed = ({ textBytes, storedBytes, lines, fed }: CommittedPart): void =>
    events.progress({ file: name, textBytes, storedBytes, lines, doneBytes: source.at?.() ?? fed, totalBytes });
  const total = codec === "member" ? (totalBytes ?? 0) : 0;
  return new Upload(how, { source: id, name, codec, total }, { ...events, committed });
};

/** Reads a source from its start, compares the committed part, and ships the rest. */
const shipRest = async (source: Source, upload: Upload, { settings, signal }: Shipping): Promise<ShippedFile> => {
  const { name } = source;
  // A file keeps the codec that it started with, even if the options have changed.
  const { codec } = upload.opened;
  if ((codec === "member") !== (source.codec === "member")) throw changedError(name);
  const hash = createHash("sha256");
  const { fed, crc } = upload.committed;
  const framer = new Framer(codec, settings, fed, crc);
  const compressing: Promise<Chunk[]>[] = [];
  const window = settings.maxInFlight;
  const drain = async (keep: number): Promise<void> => {
    while (compressing.length > keep) {
      // All chunks that are compressed by now are sent in one batch.
      const some = await Promise.all(compressing.splice(0, Math.max(1, Math.min(compressing.length - keep, window))));
      await upload.add(some.flat());
    }
  };
  let missing = fed;
  let crcSeen = 0;
  const isHolding = (): boolean => framer.isHolding || compressing.length > 0;
  for await (const given of timely(source.read(), settings.flushMs, isHolding, signal)) {
    if (given === "late") {
      compressing.push(...framer.flush());
      await drain(0);
      await upload.settle();
      continue;
    }
    let bytes = bytesOf(given);
    hash.update(bytes);
    if (missing > 0) {
      const known = bytes.subarray(0, missing);
      crcSeen = crcOf(known, crcSeen);
      missing -= known.length;
      if (missing === 0 && crcSeen !== crc) throw changedError(name);
      bytes = bytes.subarray(known.length);
      if (bytes.length === 0) continue;
    }
    // The source of a stream may reuse the memory.
    compressing.push(...framer.feed(source.isRepeatable || typeof given === "string" ? bytes : Buffer.from(bytes)));
    if (compressing.length >= 2 * window) await drain(window);
  }
  if (missing > 0) throw changedError(name);
  compressing.push(...framer.flush());
  await drain(0);
  const sha256 = hash.digest("hex");
  await upload.seal(sha256);
  const { textBytes, storedBytes, lines } = upload.committed;
  return { id: upload.opened.id, name, textBytes, storedBytes, lines, sha256, wasShipped: false };
};

/** If the caller gave no identity, the same call would ship another file, and the first one may stay open. */
const refusedFor =
  ({ isNameless }: Source) =>
  (error: unknown): never => {
    if (!isNameless || !(error instanceof KitUnknownOutcomeError)) throw error;
    throw new KitUnknownOutcomeError(error.message, undefined, error.cause);
  };

/** The reason to end the file at its current position, so that it holds up no later files. Undefined if another call can continue it. */
const faultOf = ({ isNameless }: Source, { onBadData }: ResolvedShipper, error: unknown): string | undefined => {
  if (onBadData === "quarantine" && isAboutContent(error)) return error.code;
  // No other call can have this generated identity.
  return isNameless ? "KIT_LOGSHIP_INTERRUPTED" : undefined;
};

const shippedBefore = async (
  { name, totalBytes, gzip }: Source,
  { id, textBytes, storedBytes, lines, sha256, codec }: Opened,
  signal: AbortSignal,
): Promise<ShippedFile> => {
  const isStored = codec === "member";
  const size = isStored ? storedBytes : textBytes;
  const isWhole = gzip && !isStored ? await gzip.inflatesTo(size, signal) : size === (totalBytes ?? size);
  // A grown file has other content under the same identity: reporting it as shipped would lose the rest.
  if (!isWhole) throw changedError(name);
  return { id, name, textBytes, storedBytes, lines, sha256, wasShipped: true };
};

/** Yields the values of a source, and `late` after each `ms` without a value while `isWanted()`. */
async function* timely<T>(
  source: AsyncIterable<T>,
  ms: number,
  isWanted: () => boolean,
  signal: AbortSignal,
): AsyncGenerator<T | "late", void, undefined> {
  const values = source[Symbol.asyncIterator]();
  const watch = new Watch();
  const stop = onAbort(signal, () => watch.fail(signal.reason));
  let isDone = false;
  try {
    for (;;) {
      const next = values.next();
      next.catch(() => undefined);
      let given = await watch.of(next, isWanted() ? ms : undefined);
      if (given === "late") {
        yield given;
        given = (await watch.of(next)) as IteratorResult<T, void>;
      }
      signal.throwIfAborted();
      if (given.done) {
        isDone = true;
        return;
      }
      yield given.value;
    }
  } finally {
    stop();
    if (!isDone) void Promise.resolve(values.return?.()).catch(() => undefined);
  }
}
