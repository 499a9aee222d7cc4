import { defineScript } from "@kit/core";
import { decodedName } from "@kit/core/toolkit";
import advanceSource from "./advance.lua";
import applySource from "./apply.lua";
import changeSource from "./change.lua";
import claimSource from "./claim.lua";
import clockSource from "./clock.lua";
import commitSource from "./commit.lua";
import contentsSource from "./contents.lua";
import createSource from "./create.lua";
import discardSource from "./discard.lua";
import dropSource from "./drop.lua";
import forgetSource from "./forget.lua";
import freeSource from "./free.lua";
import joinSource from "./join.lua";
import leaveSource from "./leave.lua";
import lookSource from "./look.lua";
import openSource from "./open.lua";
import progressSource from "./progress.lua";
import releaseSource from "./release.lua";
import reserveSource from "./reserve.lua";
import resultsSource from "./results.lua";
import sealSource from "./seal.lua";
import spaceSource from "./space.lua";
import statusSource from "./status.lua";
import takeSource from "./take.lua";

const jobKeys = ["job", "progress", "claims"] as const;
const channelKeys = [
  "channel",
  "files",
  "live",
  "sources",
  "done",
  "chunks",
  "consumers",
  "seen",
  "positions",
  "free",
] as const;

const list = (raw: unknown): unknown[] => raw as unknown[];
const texts = (raw: unknown): string[] => list(raw).map(String);
/** A list that starts with a code. A client may be configured to return numbers as text. */
const coded = (raw: unknown): [code: number, ...rest: unknown[]] => {
  const [code, ...rest] = list(raw);
  return [Number(code), ...rest];
};

/** How a file's chunks are stored: each as a gzip member, as plain text, or as the unchanged bytes of a gzip file. */
export type Codec = "gzip" | "none" | "member";

/** A content with the same beginning as a file, the file that had it last, and how long another worker has it. */
export interface Alike {
  readonly content: string;
  readonly position: string;
  readonly file: string;
  readonly isDone: boolean;
  readonly msLeft: number;
  readonly name: string;
  /** Whether it has the file's longest beginning. */
  readonly isLike: boolean;
}

/**
 * A worker's right to a file. Refused if the file is done, its record has changed since it was read, or another worker has it for `msLeft`.
 * If other contents have the same beginning, the caller must compare them first.
 */
export type Claim =
  | {
      readonly state: "claimed";
      readonly fence: string;
      readonly seq: number;
      readonly position: string;
      readonly content: string;
      /** The previous content of the file, and the position in it. Empty if it is the same, or the first. */
      readonly former: string;
      readonly formerPosition: string;
      readonly formerStamp: string;
      /** The content of a previous file with this name and first line. Empty if it is the same, or there is none. */
      readonly named: string;
    }
  | { readonly state: "refused"; readonly msLeft: number }
  | { readonly state: "alike"; readonly others: string; readonly contents: readonly Alike[] };

const alike = (raw: unknown): Alike => {
  const [content = "", position = "", file = "", state, msLeft, name = "", isLike] = texts(raw);
  return { content, position, file, isDone: state === "done", msLeft: Number(msLeft), name, isLike: isLike === "1" };
};

export const claim = defineScript({
  name: "logship.claim",
  source: [clockSource, contentsSource, claimSource],
  keys: jobKeys,
  args: [
    "file",
    "seen",
    "prefix",
    "likeness",
    "name",
    "stamp",
    "leaseMs",
    "op",
    "others",
    "content",
    "position",
    "from",
    "...beginning",
  ],
  idempotent: true,
  reply: (raw): Claim => {
    const [code, first, ...rest] = coded(raw);
    if (code === 0) return { state: "refused", msLeft: Number(first) };
    if (code === 2) return { state: "alike", others: String(first), contents: rest.map(alike) };
    const [seq, position = "", content = "", former = "", formerPosition = "", formerStamp = "", named = ""] =
      texts(rest);
    const before = { former, formerPosition, formerStamp, named };
    return { state: "claimed", fence: String(first), seq: Number(seq), position, content, ...before };
  },
});

/** Another process has it. `by` is its fence; 0 if no process has it because the record no longer exists. */
interface Fenced {
  readonly state: "fenced";
  readonly by: number;
}

/** The outcome of a commit of results and position. */
export type Committed =
  | { readonly state: "committed"; readonly parts: readonly string[] }
  | Fenced
  | { readonly state: "gone" }
  | { readonly state: "moved" }
  | { readonly state: "refused"; readonly fault: string };

const committed = (raw: unknown): Committed => {
  const [code, ...rest] = coded(raw);
  if (code === 0) return { state: "fenced", by: Number(rest[0]) };
  if (code === 3) return { state: "moved" };
  if (code === 4) return { state: "gone" };
  if (code === 5) return { state: "refused", fault: String(rest[0]) };
  return { state: "committed", parts: texts(rest) };
};

export const progress = defineScript({
  name: "logship.progress",
  source: [clockSource, contentsSource, resultsSource, progressSource],
  keys: [...jobKeys, "...targets"],
  args: ["content", "fence", "leaseMs", "events", "seq", "position", "prefix", "lines", "doneStamp", "results"],
  idempotent: true,
  reply: committed,
});

/** A file of a channel, as its shipper opens it. */
export interface Opened {
  readonly state: "open" | "done";
  readonly epoch: string;
  readonly limitBytes: number;
  readonly id: number;
  readonly fence: string;
  readonly chunks: number;
  readonly textBytes: number;
  readonly crc: number;
  readonly lines: number;
  readonly codec: Codec;
  readonly storedBytes: number;
  readonly sha256: string;
}

export const open = defineScript({
  name: "logship.open",
  source: [clockSource, createSource, spaceSource, contentsSource, openSource],
  keys: ["channel", "files", "live", "sources", "consumers"],
  args: ["source", "mine", "name", "codec", "limit", "epoch", "events", "op", "total", "chunkBytes", "...expected"],
  idempotent: true,
  reply: (raw): Opened | { readonly state: "fenced" | "closed" | "large" } => {
    const [code, epoch, limit, id, fence, chunks, text, crc, lines, codec, stored, sha256] = coded(raw);
    if (code > 2) return { state: code === 3 ? "fenced" : code === 4 ? "closed" : "large" };
    return {
      state: code === 1 ? "open" : "done",
      epoch: String(epoch),
      limitBytes: Number(limit),
      id: Number(id),
      fence: String(fence),
      chunks: Number(chunks),
      textBytes: Number(text),
      crc: Number(crc),
      lines: Number(lines),
      codec: codec as Codec,
      storedBytes: Number(stored),
      sha256: (sha256 ?? "") as string,
    };
  },
});

export type Reserved =
  | { readonly state: "reserved"; readonly bytes: number; readonly endsAt: number; readonly unit: number }
  | {
      readonly state: "full";
      readonly msLeft: number;
      readonly unit: number;
      readonly limitBytes: number;
      readonly parts: readonly string[];
    }
  | { readonly state: "fenced" }
  | { readonly state: "gone" };

export const reserve = defineScript({
  name: "logship.reserve",
  source: [clockSource, spaceSource, reserveSource],
  keys: ["channel", "files", "live", "leases", "free"],
  args: ["file", "fence", "want", "chunkBytes", "leaseMs"],
  idempotent: true,
  reply: (raw): Reserved => {
    const [code, ...rest] = coded(raw);
    const [first = 0, second = 0, third = 0] = rest.slice(0, 3).map(Number);
    if (code === 0 || code === 4) return { state: code === 0 ? "fenced" : "gone" };
    if (code === 1) return { state: "reserved", bytes: first, endsAt: second, unit: third };
    return { state: "full", msLeft: first, unit: second, limitBytes: third, parts: texts(rest.slice(3)) };
  },
});

export type ChunksCommitted =
  | { readonly state: "committed"; readonly bytes: number; readonly endsAt: number; readonly parts: readonly string[] }
  | { readonly state: "fenced" | "gone" | "expired" | "moved" };

export const commit = defineScript({
  name: "logship.commit",
  source: [clockSource, spaceSource, contentsSource, releaseSource, commitSource],
  keys: [
    "channel",
    "files",
    "live",
    "chunks",
    "leases",
    "sources",
    "done",
    "consumers",
    "positions",
    "free",
    "...written",
  ],
  args: [
    "file",
    "fence",
    "first",
    "want",
    "chunkBytes",
    "leaseMs",
    "events",
    "crcBefore",
    "crcAfter",
    "...facts[part size text crc lines]",
  ],
  idempotent: true,
  reply: (raw): ChunksCommitted => {
    const [code, bytes, endsAt, ...parts] = coded(raw);
    if (code === 1) return { state: "committed", bytes: Number(bytes), endsAt: Number(endsAt), parts: texts(parts) };
    return { state: code === 0 ? "fenced" : code === 2 ? "expired" : code === 3 ? "moved" : "gone" };
  },
});

export const seal = defineScript({
  name: "logship.seal",
  source: [clockSource, spaceSource, contentsSource, releaseSource, sealSource],
  keys: ["channel", "files", "sources", "leases", "live", "done", "chunks", "consumers", "positions", "free"],
  args: ["file", "fence", "count", "sha256", "fault", "silentMs", "events"],
  idempotent: true,
  reply: (raw): "sealed" | "fenced" | "moved" | "gone" =>
    (["fenced", "sealed", "gone", "moved"] as const)[Number(raw)] ?? "gone",
});

export const leave = defineScript({
  name: "logship.leave",
  source: [spaceSource, leaveSource],
  keys: ["channel", "leases", "...written"],
  args: ["lease", "events"],
  idempotent: true,
  reply: () => undefined,
});

export type Joined =
  | {
      readonly state: "joined";
      readonly epoch: string;
      readonly fence: string;
      readonly after: number;
      readonly parts: readonly string[];
    }
  | { readonly state: "trimmed" }
  | { readonly state: "dropped" };

export const join = defineScript({
  name: "logship.join",
  source: [clockSource, createSource, joinSource],
  keys: ["channel", "consumers", "seen", "free"],
  args: ["consumer", "from", "epoch", "op"],
  idempotent: true,
  reply: (raw): Joined => {
    const [code, epoch, fence, after, ...parts] = coded(raw);
    if (code > 1) return { state: code === 2 ? "trimmed" : "dropped" };
    return { state: "joined", epoch: String(epoch), fence: String(fence), after: Number(after), parts: texts(parts) };
  },
});

/** A file of a channel, as one consumer sees it. */
export interface SeenFile {
  readonly id: number;
  readonly name: string;
  readonly isSealed: boolean;
  readonly codec: Codec;
  readonly chunks: number;
  readonly textBytes: number;
  readonly storedBytes: number;
  readonly lines: number;
  readonly crc: number;
  readonly sha256: string;
  /** The code of the error that made its shipper end it early; empty if it did not. */
  readonly fault: string;
  /** The consumer's record: how many commits, whether it is done or quarantined, and its position. */
  readonly seq: number;
  readonly isDone: boolean;
  readonly isQuarantined: boolean;
  /** The first chunk that its position needs. */
  readonly chunk: number;
  readonly position: string | undefined;
}

export type Look =
  | { readonly state: "seen"; readonly epoch: string; readonly isClosed: boolean; readonly files: readonly SeenFile[] }
  | Fenced
  | { readonly state: "gone" };

const seenFile = (raw: unknown): SeenFile => {
  const [id, name = "", state, codec, chunks, text, stored, lines, crc, sha256 = "", record = "", fault = ""] =
    texts(raw);
  const [, seq = "0", chunk = "0", progressed, position] = /^(\d+) (\d+) (\w+) (\S+)/.exec(record) ?? [];
  return {
    id: Number(id),
    name,
    isSealed: state === "sealed",
    codec: codec as Codec,
    chunks: Number(chunks),
    textBytes: Number(text),
    storedBytes: Number(stored),
    lines: Number(lines),
    crc: Number(crc),
    sha256,
    fault,
    seq: Number(seq),
    isDone: progressed === "done",
    isQuarantined: progressed === "quarantined",
    chunk: Number(chunk),
    position,
  };
};

export const look = defineScript({
  name: "logship.look",
  source: [clockSource, lookSource],
  keys: ["channel", "files", "live", "consumers", "seen", "positions"],
  args: ["consumer", "fence", "after", "most"],
  idempotent: true,
  reply: (raw): Look => {
    const [code, epoch, closed, ...files] = coded(raw);
    if (code === 0) return { state: "fenced", by: Number(epoch) };
    if (code === 4) return { state: "gone" };
    return { state: "seen", epoch: String(epoch), isClosed: Number(closed) === 1, files: files.map(seenFile) };
  },
});

export const advance = defineScript({
  name: "logship.advance",
  source: [clockSource, spaceSource, resultsSource, contentsSource, releaseSource, advanceSource],
  keys: [...channelKeys, "...targets"],
  args: ["consumer", "fence", "file", "seq", "chunk", "state", "position", "cause", "place", "results"],
  idempotent: true,
  reply: committed,
});

export const apply = defineScript({
  name: "logship.apply",
  source: [resultsSource, applySource],
  keys: ["owner", "pending", "...targets"],
  args: ["piece"],
  idempotent: true,
  reply: committed,
});

export const free = defineScript({
  name: "logship.free",
  source: freeSource,
  keys: ["channel", "free", "...unneeded"],
  args: ["events", "...parts"],
  idempotent: true,
  reply: texts,
});

export const forget = defineScript({
  name: "logship.forget",
  source: [clockSource, forgetSource],
  keys: [...jobKeys, "...targets"],
  args: ["fence"],
  idempotent: true,
  reply: (raw): "deleted" | "busy" | "changed" => (["busy", "deleted"] as const)[Number(raw)] ?? "changed",
});

export const discard = defineScript({
  name: "logship.discard",
  source: discardSource,
  keys: [...channelKeys, "leases", "...targets"],
  args: ["epoch", "isLast", "events"],
  idempotent: true,
  reply: texts,
});

export const drop = defineScript({
  name: "logship.drop",
  source: [clockSource, spaceSource, contentsSource, releaseSource, dropSource],
  keys: channelKeys,
  args: ["consumer", "silentMs", "after", "epoch"],
  idempotent: true,
  reply: (raw): { readonly after: number; readonly parts: readonly string[] } | null => {
    const [code, after, ...parts] = coded(raw);
    return code === 0 ? null : { after: Number(after), parts: texts(parts) };
  },
});

/** Sums on their way to a sink. */
export interface Taken {
  readonly seq: number;
  readonly sums: readonly (readonly [field: string, sum: number])[];
}

export const take = defineScript({
  name: "logship.take",
  source: [clockSource, takeSource],
  keys: ["owner", "source", "sending"],
  args: ["ack"],
  idempotent: true,
  reply: (raw): Taken | null => {
    const [seq, ...flat] = texts(raw);
    if (seq === undefined) return null;
    const sumOf = (_: unknown, index: number) => [flat[2 * index]!, Number(flat[2 * index + 1])] as const;
    return { seq: Number(seq), sums: Array.from({ length: flat.length / 2 }, sumOf) };
  },
});

export const change = defineScript({
  name: "logship.change",
  source: [clockSource, createSource, changeSource],
  keys: ["channel"],
  args: ["limit", "epoch", "events"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/** A consumer of a channel, and its progress. */
export interface ConsumerStatus {
  readonly name: string;
  /** The consumer gets the files with a higher id. */
  readonly after: number;
  /** When the consumer last committed, or joined, in ms of the server's time; 0 if it never joined. */
  readonly seenAt: number;
}

/** A file in a channel. */
export interface FileStatus {
  readonly id: number;
  readonly name: string;
  readonly isSealed: boolean;
  readonly codec: Codec;
  readonly chunks: number;
  readonly freedChunks: number;
  readonly textBytes: number;
  readonly storedBytes: number;
  readonly lines: number;
  /** Text bytes that each consumer has committed. Consumers that do not get the file are left out. */
  readonly positions: Readonly<Record<string, number>>;
  /** Consumers that have quarantined the file, with the code of the error. */
  readonly quarantined: Readonly<Record<string, string>>;
  /** The code of the error that made the shipper end the file early. */
  readonly fault?: string | undefined;
}

/** A channel at one instant. */
export interface ChannelStatus {
  /** 0 before the first shipper. */
  readonly limitBytes: number;
  /** Memory that committed chunks use in Redis. */
  readonly usedBytes: number;
  /** Memory that shippers have reserved for chunks in flight. */
  readonly reservedBytes: number;
  readonly isClosed: boolean;
  /** The server's time in ms. */
  readonly at: number;
  /** Files in the channel; `files` has the first 100 of them. */
  readonly fileCount: number;
  /** Shippers with a reservation. */
  readonly shippers: number;
  readonly files: readonly FileStatus[];
  readonly consumers: readonly ConsumerStatus[];
}

const statusOf = (raw: unknown): ChannelStatus | null => {
  const [epoch, limit, used, reserved, closed, at, fileCount, shippers, files, consumers] = list(raw);
  if (epoch === undefined) return null;
  const all = list(consumers).map((consumer) => {
    const [name = "", after, seenAt] = texts(consumer);
    return { name: decodedName(name), after: Number(after), seenAt: Number(seenAt) };
  });
  return {
    limitBytes: Number(limit),
    usedBytes: Number(used),
    reservedBytes: Number(reserved),
    isClosed: Number(closed) === 1,
    at: Number(at),
    fileCount: Number(fileCount),
    shippers: Number(shippers),
    files: list(files).map((file) => fileStatus(file, all)),
    consumers: all,
  };
};

const fileStatus = (raw: unknown, consumers: readonly ConsumerStatus[]): FileStatus => {
  const [id, name = "", state, codec, chunks, freed, text, stored, lines, fault, ...records] = texts(raw);
  const getting = consumers.flatMap(({ name: consumer, after }, index) => {
    const [, state = "", offset = 0, cause = ""] = / ([a-z]+) (\d+):\S+ ?(\S*)$/.exec(records[index] ?? "") ?? [];
    return after < Number(id) ? [{ consumer, state, offset: Number(offset), cause }] : [];
  });
  const quarantined = getting.filter(({ state }) => state === "quarantined");
  return {
    id: Number(id),
    name,
    isSealed: state === "sealed",
    codec: codec as Codec,
    chunks: Number(chunks),
    freedChunks: Number(freed),
    textBytes: Number(text),
    storedBytes: Number(stored),
    lines: Number(lines),
    positions: Object.fromEntries(getting.map(({ consumer, offset }) => [consumer, offset])),
    quarantined: Object.fromEntries(quarantined.map(({ consumer, cause }) => [consumer, cause])),
    ...(fault && { fault }),
  };
};

export const status = defineScript({
  name: "logship.status",
  source: [clockSource, statusSource],
  keys: ["channel", "files", "live", "consumers", "seen", "positions", "leases"],
  args: ["most"],
  readonly: true,
  reply: statusOf,
});
