import { defineScript, type Script } from "@kit/core";
import advanceSource from "./advance.lua";
import claimSource from "./claim.lua";
import clockSource from "./clock.lua";
import closeSource from "./close.lua";
import commitSource from "./commit.lua";
import createSource from "./create.lua";
import discardSource from "./discard.lua";
import dropSource from "./drop.lua";
import finishSource from "./finish.lua";
import forgetSource from "./forget.lua";
import freeSource from "./free.lua";
import joinSource from "./join.lua";
import leaveSource from "./leave.lua";
import limitSource from "./limit.lua";
import lookSource from "./look.lua";
import openSource from "./open.lua";
import progressSource from "./progress.lua";
import recordsSource from "./records.lua";
import releaseSource from "./release.lua";
import reserveSource from "./reserve.lua";
import resultsSource from "./results.lua";
import sealSource from "./seal.lua";
import spaceSource from "./space.lua";
import statusSource from "./status.lua";
import takeSource from "./take.lua";

const list = (raw: unknown): unknown[] => raw as unknown[];
/** A list that begins with a code; clients may be made to give numbers as text. */
const coded = (raw: unknown): [code: number, ...rest: unknown[]] => {
  const [code, ...rest] = list(raw);
  return [Number(code), ...rest];
};
const texts = (raw: unknown): string[] => list(raw).map(String);

/** What changes when a consumer passes chunks. */
const passKeys = [
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

/** How chunks of a file are stored: each a gzip member, plain, or the bytes of a gzip file as it was. */
export type Codec = "gzip" | "none" | "member";

/** What a job knows of a file. */
export interface FileRecord {
  readonly prefix: string;
  readonly isDone: boolean;
  readonly stamp: string;
  readonly msLeft: number;
}

export const records: Script<readonly ["progress", "claims"], readonly ["...files"], FileRecord[]> = defineScript({
  name: "logship.records",
  source: [clockSource, recordsSource],
  keys: ["progress", "claims"],
  args: ["...files"],
  readonly: true,
  reply: (raw) => {
    const facts = texts(raw);
    return Array.from({ length: facts.length / 4 }, (_, index) => {
      const [prefix = "", state, stamp = "", msLeft] = facts.slice(4 * index, 4 * index + 4);
      return { prefix, isDone: state === "done", stamp, msLeft: Number(msLeft) };
    });
  },
});

export type Claim =
  | {
      readonly state: "claimed";
      readonly fence: string;
      readonly seq: number;
      readonly position: string;
    }
  /** Another worker has it, it is done, or its record has changed: look again. */
  | { readonly state: "refused" };

export const claim: Script<
  readonly ["job", "progress", "claims"],
  readonly ["file", "seen", "prefix", "name", "stamp", "leaseMs", "op"],
  Claim
> = defineScript({
  name: "logship.claim",
  source: [clockSource, claimSource],
  keys: ["job", "progress", "claims"],
  args: ["file", "seen", "prefix", "name", "stamp", "leaseMs", "op"],
  idempotent: true,
  reply: (raw) => {
    const [code, fence, seq, position] = coded(raw);
    if (code !== 1) return { state: "refused" };
    return {
      state: "claimed",
      fence: String(fence),
      seq: Number(seq),
      position: String(position),
    };
  },
});

/** Another process has it. `by` is its fence; 0: nobody has, the record is gone. */
export interface Fenced {
  readonly state: "fenced";
  readonly by: number;
}

/** What became of a commit of results and position. */
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

export const progress: Script<
  readonly ["job", "progress", "claims", "...targets"],
  readonly ["file", "fence", "leaseMs", "events", "seq", "position", "lines", "doneStamp", "results"],
  Committed
> = defineScript({
  name: "logship.progress",
  source: [clockSource, resultsSource, progressSource],
  keys: ["job", "progress", "claims", "...targets"],
  args: ["file", "fence", "leaseMs", "events", "seq", "position", "lines", "doneStamp", "results"],
  idempotent: true,
  reply: committed,
});

/** A file of a channel as its shipper finds it. */
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

export const open: Script<
  readonly ["channel", "files", "live", "sources", "consumers"],
  readonly ["source", "mine", "name", "codec", "limit", "epoch", "events", "op", "total", "chunkBytes", "...expected"],
  Opened | { readonly state: "fenced" | "closed" | "large"; readonly epoch: string }
> = defineScript({
  name: "logship.open",
  source: [clockSource, createSource, spaceSource, openSource],
  keys: ["channel", "files", "live", "sources", "consumers"],
  args: ["source", "mine", "name", "codec", "limit", "epoch", "events", "op", "total", "chunkBytes", "...expected"],
  idempotent: true,
  reply: (raw) => {
    const [code, epoch, limit, id, fence, chunks, text, crc, lines, codec, stored, sha256] = coded(raw);
    if (code === 3) return { state: "fenced", epoch: String(epoch) };
    if (code === 4) return { state: "closed", epoch: String(epoch) };
    if (code === 5) return { state: "large", epoch: String(epoch) };
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

export const reserve: Script<
  readonly ["channel", "files", "live", "leases", "reservations", "free"],
  readonly ["file", "fence", "want", "chunkBytes", "leaseMs"],
  Reserved
> = defineScript({
  name: "logship.reserve",
  source: [clockSource, spaceSource, reserveSource],
  keys: ["channel", "files", "live", "leases", "reservations", "free"],
  args: ["file", "fence", "want", "chunkBytes", "leaseMs"],
  idempotent: true,
  reply: (raw) => {
    const [code, first, second, third, ...parts] = coded(raw);
    if (code === 0 || code === 4) return { state: code === 0 ? "fenced" : "gone" };
    if (code === 1) return { state: "reserved", bytes: Number(first), endsAt: Number(second), unit: Number(third) };
    return {
      state: "full",
      msLeft: Number(first),
      unit: Number(second),
      limitBytes: Number(third),
      parts: texts(parts),
    };
  },
});

export type ChunksCommitted =
  | { readonly state: "committed"; readonly bytes: number; readonly endsAt: number }
  | { readonly state: "fenced" | "gone" | "expired" | "moved" };

export const commit: Script<
  readonly ["channel", "files", "live", "chunks", "leases", "reservations", "...written"],
  readonly ["file", "fence", "first", "want", "chunkBytes", "leaseMs", "events", "crcBefore", "crc", "...facts"],
  ChunksCommitted
> = defineScript({
  name: "logship.commit",
  source: [clockSource, spaceSource, commitSource],
  keys: ["channel", "files", "live", "chunks", "leases", "reservations", "...written"],
  args: ["file", "fence", "first", "want", "chunkBytes", "leaseMs", "events", "crcBefore", "crc", "...facts"],
  idempotent: true,
  reply: (raw) => {
    const [code, bytes, endsAt] = list(raw).map(Number);
    if (code === 1) return { state: "committed", bytes: bytes ?? 0, endsAt: endsAt ?? 0 };
    return {
      state: code === 0 ? "fenced" : code === 2 ? "expired" : code === 3 ? "moved" : "gone",
    };
  },
});

export const seal: Script<
  readonly ["channel", "files", "sources", "leases", "reservations"],
  readonly ["file", "fence", "count", "sha256", "fault", "events"],
  "sealed" | "fenced" | "moved" | "gone"
> = defineScript({
  name: "logship.seal",
  source: [spaceSource, sealSource],
  keys: ["channel", "files", "sources", "leases", "reservations"],
  args: ["file", "fence", "count", "sha256", "fault", "events"],
  idempotent: true,
  reply: (raw) => (["fenced", "sealed", "gone", "moved"] as const)[Number(raw)] ?? "gone",
});

export const leave: Script<
  readonly ["channel", "leases", "reservations", "...written"],
  readonly ["lease", "events"],
  void
> = defineScript({
  name: "logship.leave",
  source: [spaceSource, leaveSource],
  keys: ["channel", "leases", "reservations", "...written"],
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

export const join: Script<
  readonly ["channel", "consumers", "seen", "free"],
  readonly ["consumer", "from", "epoch"],
  Joined
> = defineScript({
  name: "logship.join",
  source: [clockSource, createSource, joinSource],
  keys: ["channel", "consumers", "seen", "free"],
  args: ["consumer", "from", "epoch"],
  idempotent: true,
  reply: (raw) => {
    const [code, epoch, fence, after, ...parts] = coded(raw);
    if (code === 2) return { state: "trimmed" };
    if (code === 3) return { state: "dropped" };
    return { state: "joined", epoch: String(epoch), fence: String(fence), after: Number(after), parts: texts(parts) };
  },
});

/** A file of a channel as one consumer sees it. */
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
  /** Why it ended before its end; empty: it did not. */
  readonly fault: string;
  /** The consumer's record: how many commits, whether it is done or set aside, and its position. */
  readonly seq: number;
  readonly isDone: boolean;
  readonly isAside: boolean;
  /** First chunk that its position needs. */
  readonly chunk: number;
  readonly position: string | undefined;
}

export type Look =
  | { readonly state: "seen"; readonly epoch: string; readonly isClosed: boolean; readonly files: readonly SeenFile[] }
  | Fenced
  | { readonly state: "gone" };

export const look: Script<
  readonly ["channel", "files", "live", "consumers", "seen", "positions"],
  readonly ["consumer", "fence", "after", "most"],
  Look
> = defineScript({
  name: "logship.look",
  source: [clockSource, lookSource],
  keys: ["channel", "files", "live", "consumers", "seen", "positions"],
  args: ["consumer", "fence", "after", "most"],
  idempotent: true,
  reply: (raw) => {
    const [code, epoch, closed, ...files] = coded(raw);
    if (code === 0) return { state: "fenced", by: Number(epoch) };
    if (code === 4) return { state: "gone" };
    return { state: "seen", epoch: String(epoch), isClosed: Number(closed) === 1, files: files.map(seenFile) };
  },
});

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
    isAside: progressed === "aside",
    chunk: Number(chunk),
    position,
  };
};

export const advance: Script<
  readonly [...typeof passKeys, "...targets"],
  readonly ["consumer", "fence", "file", "seq", "chunk", "state", "position", "cause", "results"],
  Committed
> = defineScript({
  name: "logship.advance",
  source: [clockSource, spaceSource, resultsSource, releaseSource, advanceSource],
  keys: [...passKeys, "...targets"],
  args: ["consumer", "fence", "file", "seq", "chunk", "state", "position", "cause", "results"],
  idempotent: true,
  reply: committed,
});

export const free: Script<readonly ["channel", "free", "...unneeded"], readonly ["events", "...parts"], string[]> =
  defineScript({
    name: "logship.free",
    source: freeSource,
    keys: ["channel", "free", "...unneeded"],
    args: ["events", "...parts"],
    idempotent: true,
    reply: texts,
  });

export const forget: Script<
  readonly ["job", "progress", "claims", "...targets"],
  readonly [],
  "deleted" | "busy" | "changed"
> = defineScript({
  name: "logship.forget",
  source: [clockSource, forgetSource],
  keys: ["job", "progress", "claims", "...targets"],
  args: [],
  idempotent: true,
  reply: (raw) => (["busy", "deleted"] as const)[Number(raw)] ?? "changed",
});

export const discard: Script<
  readonly [...typeof passKeys, "leases", "reservations", "...targets"],
  readonly ["isLast", "events"],
  string[]
> = defineScript({
  name: "logship.discard",
  source: discardSource,
  keys: [...passKeys, "leases", "reservations", "...targets"],
  args: ["isLast", "events"],
  idempotent: true,
  reply: texts,
});

export const drop: Script<
  typeof passKeys,
  readonly ["consumer", "silentMs", "after"],
  { readonly after: number; readonly parts: readonly string[] } | null
> = defineScript({
  name: "logship.drop",
  source: [clockSource, spaceSource, releaseSource, dropSource],
  keys: passKeys,
  args: ["consumer", "silentMs", "after"],
  idempotent: true,
  reply: (raw) => {
    const [code, after, ...parts] = coded(raw);
    return code === 0 ? null : { after: Number(after), parts: texts(parts) };
  },
});

export const finish: Script<
  readonly ["channel", "files", "live", "sources", "leases", "reservations"],
  readonly ["silentMs", "fault", "events"],
  string[]
> = defineScript({
  name: "logship.finish",
  source: [clockSource, spaceSource, finishSource],
  keys: ["channel", "files", "live", "sources", "leases", "reservations"],
  args: ["silentMs", "fault", "events"],
  idempotent: true,
  reply: texts,
});

/** Sums on their way to a sink. */
export interface Taken {
  readonly seq: number;
  readonly sums: readonly (readonly [field: string, sum: number])[];
}

export const take: Script<readonly ["owner", "source", "sending"], readonly ["ack"], Taken | null> = defineScript({
  name: "logship.take",
  source: [clockSource, takeSource],
  keys: ["owner", "source", "sending"],
  args: ["ack"],
  idempotent: true,
  reply: (raw) => {
    const [seq, ...flat] = texts(raw);
    if (seq === undefined) return null;
    const sums = Array.from(
      { length: flat.length / 2 },
      (_, index) => [flat[2 * index]!, Number(flat[2 * index + 1])] as const,
    );
    return { seq: Number(seq), sums };
  },
});

export const close: Script<readonly ["channel"], readonly ["events"], boolean> = defineScript({
  name: "logship.close",
  source: closeSource,
  keys: ["channel"],
  args: ["events"],
  idempotent: true,
  reply: (raw) => Number(raw) === 1,
});

export const limit: Script<readonly ["channel"], readonly ["limit", "epoch", "events"], void> = defineScript({
  name: "logship.limit",
  source: [clockSource, createSource, limitSource],
  keys: ["channel"],
  args: ["limit", "epoch", "events"],
  idempotent: true,
  reply: () => undefined,
});

/** A consumer of a channel, and how far it is. */
export interface ConsumerStatus {
  readonly name: string;
  /** It gets files with an id above. */
  readonly after: number;
  /** Server's ms of its last commit, or of when it joined; 0: never. */
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
  /** Text bytes that each consumer has committed; those that do not get the file are left out. */
  readonly positions: Readonly<Record<string, number>>;
  /** Consumers that have set it aside, and the code of the error for which they did. */
  readonly setAside: Readonly<Record<string, string>>;
  /** Why it ended before its end: the code of an error. */
  readonly fault?: string | undefined;
}

/** A channel at one instant. */
export interface ChannelStatus {
  /** 0: no shipper has come yet. */
  readonly limitBytes: number;
  /** Memory that committed chunks take in Redis. */
  readonly usedBytes: number;
  /** Memory that shippers have reserved for chunks under way. */
  readonly reservedBytes: number;
  readonly isClosed: boolean;
  /** Server's ms. */
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
    return { name: decodeURIComponent(name), after: Number(after), seenAt: Number(seenAt) };
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
  const aside = getting.filter(({ state }) => state === "aside");
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
    setAside: Object.fromEntries(aside.map(({ consumer, cause }) => [consumer, cause])),
    ...(fault && { fault }),
  };
};

export const status: Script<
  readonly ["channel", "files", "live", "consumers", "seen", "positions", "leases", "reservations"],
  readonly ["most"],
  ChannelStatus | null
> = defineScript({
  name: "logship.status",
  source: [clockSource, statusSource],
  keys: ["channel", "files", "live", "consumers", "seen", "positions", "leases", "reservations"],
  args: ["most"],
  readonly: true,
  reply: statusOf,
});
