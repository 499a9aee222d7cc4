import { Deadline, integerOption, isReplyError, newToken, serverError } from "@kit/core/toolkit";
import { epochOf } from "../commands.js";
import type { LogConnection } from "../connection.js";
import { fencedError, LogshipError, type LogshipErrorCode } from "../errors.js";
import type { ResolvedShipper } from "../options.js";
import type { ChunksCommitted, Codec, Opened, Reserved } from "../scripts/index.js";
import * as scripts from "../scripts/index.js";
import type { Chunk } from "./framing.js";

/** A source, and how it is stored. */
export interface UploadSource {
  /** The source's identity: the same source continues where an earlier upload stopped. */
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

/** Reserved space, or the reason why there is none. */
type Granted = Exclude<Reserved, { state: "fenced" | "gone" }>;

/** How a source is shipped. */
export interface Shipping {
  readonly connection: LogConnection;
  readonly settings: ResolvedShipper;
  readonly signal: AbortSignal;
}

export type UploadCommands = ReturnType<typeof uploadCommands>;

/** The commands of one upload. If another shipper or a loss of data caused a reply, it becomes an error. */
export const uploadCommands = ({ connection, settings, signal }: Shipping, source: UploadSource) => {
  const { keys } = connection;
  const { events } = keys;
  const { chunkBytes, leaseMs } = settings;
  /** The op of the next opening. Every attempt repeats it, so that neither a late repeat nor a retry fences off this shipper. */
  let op = newToken();

  const failure = (code: LogshipErrorCode, message: string, retryable = false): LogshipError =>
    new LogshipError(code, message, { file: source.name, retryable });
  const fenced = (): LogshipError => fencedError("The file", source.name);
  const tooLarge = (message: string): LogshipError => failure("KIT_LOGSHIP_TOO_LARGE", message);
  const gone = (): LogshipError => failure("KIT_LOGSHIP_RESET", "The file is no longer in Redis", true);
  const refuse = (state: string): void => {
    if (state === "fenced") throw fenced();
    // Every consumer was done with the file, or the server lost data. Opening it again shows which.
    if (state === "gone") throw gone();
  };
  const sealing = async (
    { id: file, fence }: Opened,
    count: number,
    sha256: string,
    fault: string,
  ): Promise<Awaited<ReturnType<typeof scripts.seal.run>>> =>
    await connection.run(scripts.seal, { file, fence, count, sha256, fault, silentMs: -1, events });

  return {
    fenced,
    gone,
    tooLarge,

    /** Opens the file, or finds that it has been shipped. `mine` is the fence of this upload's earlier opening, if any. */
    open: async (mine: string): Promise<Opened> => {
      const { limitBytes: limit, consumers: expected } = settings;
      const args = { ...source, mine, limit, epoch: newToken(), events, op, chunkBytes, expected };
      const opened = await connection.run(scripts.open, args, { op, signal });
      refuse(opened.state);
      if (opened.state === "closed")
        throw failure("KIT_LOGSHIP_CHANNEL_CLOSED", `Channel ${JSON.stringify(connection.name)} is closed`);
      if (opened.state === "large")
        throw tooLarge(
          `File ${JSON.stringify(source.name)} is larger than the channel's limit. Raise it with setLimit()`,
        );
      op = newToken();
      return opened as Opened;
    },

    /** Raises the reservation to `want` bytes, within the limit. */
    reserve: async ({ id: file, fence }: Opened, want: number): Promise<Granted> => {
      const reply = await connection.run(scripts.reserve, { file, fence, want, chunkBytes, leaseMs }, { signal });
      refuse(reply.state);
      return reply as Granted;
    },

    /** Writes a chunk. It expires at `endsAt` unless it is committed before. */
    store: async ({ chunk, part }: Held, endsAt: number): Promise<void> => {
      const key = keys.chunk(part);
      // NX: a late write must neither replace a committed chunk nor give it an expiry.
      const args = [key, chunk.bytes, "PXAT", endsAt, "NX"];
      const deadline = Deadline.in(Math.max(connection.deadlineMs, leaseMs / 2));
      const call = { what: `SET of ${key}`, mutates: true, idempotent: true, deadline, signal };
      await connection.context.executor.run("SET", args, call).catch((error: unknown) => {
        throw isReplyError(error) ? serverError(error, call.what) : error;
      });
    },

    /** Commits written chunks. `first` is the number of committed chunks. `want` is the number of bytes to reserve afterwards. */
    commit: (
      { id: file, fence }: Opened,
      some: readonly Held[],
      ahead: { readonly first: number; readonly crcBefore: number; readonly want: number },
    ): Promise<ChunksCommitted> => {
      const facts = some.map(({ chunk, part }) => ({ ...chunk, part, size: chunk.bytes.length }));
      const crcAfter = String(some.at(-1)!.chunk.crcAfter);
      const written = some.map(({ part }) => keys.chunk(part));
      const args = { file, fence, ...ahead, chunkBytes, leaseMs, events, crcAfter, facts };
      return connection.run(scripts.commit, args, { keys: { ...keys, written } });
    },

    /** @throws {LogshipError} the chunks are not committed. */
    committed: (reply: ChunksCommitted): Extract<ChunksCommitted, { state: "committed" }> => {
      refuse(reply.state);
      if (reply.state === "committed") return reply as Extract<ChunksCommitted, { state: "committed" }>;
      throw failure("KIT_LOGSHIP_EXPIRED", "A reservation expired before its chunks were committed", true);
    },

    /** Ends the file after its first `count` chunks. `moved` if the server has another number of chunks. */
    seal: async (file: Opened, count: number, sha256: string): Promise<"sealed" | "moved" | "gone"> => {
      const state = await sealing(file, count, sha256, "");
      if (state === "fenced") throw fenced();
      return state;
    },

    /** Ends the file after its current chunks, with the reason. Best effort: it may stay open. */
    breakOff: async (file: Opened, fault: string): Promise<void> => {
      await sealing(file, 0, "", fault).catch(() => undefined);
    },

    /** Returns the reservation and removes uncommitted chunks. Best effort: both expire. */
    leave: async ({ id, fence }: Opened, held: readonly Held[]): Promise<void> => {
      const written = held.slice(0, 500).map(({ part }) => keys.chunk(part));
      const args = { lease: `${String(id)} ${fence}`, events };
      await connection.run(scripts.leave, args, { keys: { ...keys, written } }).catch(() => undefined);
    },
  };
};

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

/** Ends open files to which nothing was committed for `silentMs`. Resolves with their names. */
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
