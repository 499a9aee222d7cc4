import { Deadline, integerOption, isReplyError, newToken, serverError } from "@kit/core/toolkit";
import { epochOf } from "../commands.js";
import type { LogConnection } from "../connection.js";
import { fencedError, LogshipError } from "../errors.js";
import type { ResolvedShipper } from "../options.js";
import type { ChunksCommitted, Codec, Opened, Reserved } from "../scripts/index.js";
import * as scripts from "../scripts/index.js";
import type { Chunk } from "./framing.js";

/** A source and how it is stored. */
export interface UploadSource {
  /** Its identity: the same source continues where an earlier upload ended. */
  readonly source: string;
  readonly name: string;
  readonly codec: Codec;
  /** Stored bytes of passed-through gzip content; otherwise 0. */
  readonly total: number;
}

/** A chunk that is not known to be committed. */
export interface Held {
  readonly chunk: Chunk;
  readonly part: string;
}

/** A file of a channel, as this shipper opened it. */
type Open = Pick<Opened, "id" | "fence">;

/** The commands of one upload. A reply that another shipper, or a loss of data, caused is an error. */
export class UploadCommands {
  readonly #connection: LogConnection;
  readonly #settings: ResolvedShipper;
  readonly #source: UploadSource;
  readonly #signal: AbortSignal;
  /** The op of the next opening. Every attempt repeats it, so that neither a late repeat nor a retry fences off this shipper. */
  #op: string = newToken();

  constructor(connection: LogConnection, settings: ResolvedShipper, source: UploadSource, signal: AbortSignal) {
    this.#connection = connection;
    this.#settings = settings;
    this.#source = source;
    this.#signal = signal;
  }

  /** Opens the file, or finds that it has been shipped. `mine`: the fence of this upload's earlier opening, if any. */
  async open(mine: string): Promise<Opened> {
    const op = this.#op;
    const { limitBytes: limit, consumers: expected, chunkBytes } = this.#settings;
    const { events } = this.#connection.keys;
    const args = { ...this.#source, mine, limit, epoch: newToken(), events, op, chunkBytes, expected };
    const opened = await this.#connection.run(scripts.open, args, { op, signal: this.#signal });
    if (opened.state === "fenced") throw this.fenced();
    if (opened.state === "closed") throw this.#closed();
    if (opened.state === "large")
      throw this.tooLarge(`File ${JSON.stringify(this.#source.name)} does not fit under the limit as a whole`);
    this.#op = newToken();
    return opened as Opened;
  }

  /** Raises the reservation to `want` bytes, as far as the limit allows. */
  async reserve({ id, fence }: Open, want: number): Promise<Exclude<Reserved, { state: "fenced" | "gone" }>> {
    const { chunkBytes, leaseMs } = this.#settings;
    const args = { file: id, fence, want, chunkBytes, leaseMs };
    const reply = await this.#connection.run(scripts.reserve, args, { signal: this.#signal });
    if (reply.state === "fenced") throw this.fenced();
    if (reply.state === "gone") throw this.#gone();
    return reply;
  }

  /** Writes a chunk, which expires at `endsAt` unless it is committed before. */
  async store({ chunk, part }: Held, endsAt: number): Promise<void> {
    const key = this.#connection.keys.chunk(part);
    // NX: a late write must neither replace a committed chunk nor give it an expiry.
    const args = [key, chunk.bytes, "PXAT", endsAt, "NX"];
    const deadline = Deadline.in(Math.max(this.#connection.deadlineMs, this.#settings.leaseMs / 2));
    const call = { what: `SET of ${key}`, mutates: true, idempotent: true, deadline, signal: this.#signal };
    await this.#connection.context.executor.run("SET", args, call).catch((error: unknown) => {
      throw isReplyError(error) ? serverError(error, call.what) : error;
    });
  }

  /** Commits written chunks. `first`: the number of committed ones; `want`: bytes that are to be reserved afterwards. */
  commit(
    { id, fence }: Open,
    some: readonly Held[],
    { first, crcBefore, want }: { readonly first: number; readonly crcBefore: number; readonly want: number },
  ): Promise<ChunksCommitted> {
    const { keys } = this.#connection;
    const { chunkBytes, leaseMs } = this.#settings;
    const facts = some.map(({ chunk, part }) => ({ ...chunk, part, size: chunk.bytes.length }));
    const crcs = { crcBefore, crcAfter: String(some.at(-1)!.chunk.crcAfter) };
    const written = some.map(({ part }) => keys.chunk(part));
    const args = { file: id, fence, first, want, chunkBytes, leaseMs, events: keys.events, ...crcs, facts };
    return this.#connection.run(scripts.commit, args, { keys: { ...keys, written } });
  }

  /** @throws {LogshipError} the chunks are not committed. */
  checkCommitted(reply: ChunksCommitted): asserts reply is Extract<ChunksCommitted, { state: "committed" }> {
    if (reply.state === "fenced") throw this.fenced();
    if (reply.state === "gone") throw this.#gone();
    if (reply.state === "committed") return;
    const { name: file } = this.#source;
    throw new LogshipError("KIT_LOGSHIP_EXPIRED", "A reservation ended before its chunks were committed", { file, retryable: true });
  }

  /** Ends the file behind its first `count` chunks; false if the server has another number of them. */
  async seal(file: Open, count: number, sha256: string): Promise<boolean> {
    const state = await this.#seal(file, count, sha256, "");
    if (state === "fenced") throw this.fenced();
    if (state === "gone") throw this.#gone();
    return state === "sealed";
  }

  /** Ends the file behind the chunks that are there, with the reason. Best effort: it may stay open. */
  async breakOff(file: Open, fault: string): Promise<void> {
    await this.#seal(file, 0, "", fault).catch(() => undefined);
  }

  /** Returns the reservation and removes chunks that were written in vain. Best effort: both expire. */
  async leave({ id, fence }: Open, held: readonly Held[]): Promise<void> {
    const { keys } = this.#connection;
    const written = held.slice(0, 500).map(({ part }) => keys.chunk(part));
    const args = { lease: `${String(id)} ${fence}`, events: keys.events };
    await this.#connection.run(scripts.leave, args, { keys: { ...keys, written } }).catch(() => undefined);
  }

  fenced(): LogshipError {
    return fencedError("The file", this.#source.name);
  }

  tooLarge(message: string): LogshipError {
    return new LogshipError("KIT_LOGSHIP_TOO_LARGE", message, { file: this.#source.name });
  }

  #closed(): LogshipError {
    const message = `Channel ${JSON.stringify(this.#connection.name)} is closed`;
    return new LogshipError("KIT_LOGSHIP_CHANNEL_CLOSED", message, { file: this.#source.name });
  }

  /** Every consumer was done with the file, or the server lost data. Opening it again shows which. */
  #gone(): LogshipError {
    const { name: file } = this.#source;
    return new LogshipError("KIT_LOGSHIP_RESET", "The file is no longer in Redis", { file, retryable: true });
  }

  async #seal({ id, fence }: Open, count: number, sha256: string, fault: string) {
    const { events } = this.#connection.keys;
    return await this.#connection.run(scripts.seal, { file: id, fence, count, sha256, fault, silentMs: -1, events });
  }
}

/** Changes the limit of a channel, or closes it if `limit` is empty. */
export const changeChannel = async (connection: LogConnection, limit: number | ""): Promise<void> => {
  const { events } = connection.keys;
  for (let isChanged = false; !isChanged;) {
    const known = await epochOf(connection);
    // Without a channel there is nothing to close.
    if (known === null && limit === "") return;
    isChanged = await connection.run(scripts.change, { limit, epoch: known ?? newToken(), events });
  }
};

/** Ends open files to which nothing was committed for `silentMs`; resolves with their names. */
export const endAbandoned = async (connection: LogConnection, silentMs: number): Promise<string[]> => {
  integerOption("silentMs", silentMs, 0);
  const { events, files: facts } = connection.keys;
  const how = { count: 0, sha256: "", fault: "KIT_LOGSHIP_FENCED", silentMs, events };
  const { files = [] } = (await connection.run(scripts.status, { most: 0 })) ?? {};
  const names: string[] = [];
  for (const { id: file, name, isSealed } of files) {
    if (isSealed) continue;
    const fence = String(await connection.read("HGET", [facts, `${String(file)}:fence`]));
    if ((await connection.run(scripts.seal, { ...how, file, fence })) === "sealed") names.push(name);
  }
  return names;
};
