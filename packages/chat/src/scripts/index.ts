import { defineScript } from "@kit/core";
import ackSource from "./ack.lua";
import changesSource from "./changes.lua";
import createSource from "./create.lua";
import forgetSource from "./forget.lua";
import subscribeSource from "./subscribe.lua";
import historySource from "./history.lua";
import inspectSource from "./inspect.lua";
import joinSource from "./join.lua";
import layoutSource from "./layout.lua";
import leasesSource from "./leases.lua";
import leaveSource from "./leave.lua";
import mailboxSource from "./mailbox.lua";
import membersSource from "./members.lua";
import readSource from "./read.lua";
import removeSource from "./remove.lua";
import sendSource from "./send.lua";
import settleSource from "./settle.lua";
import stateSource from "./state.lua";
import takeSource from "./take.lua";
import unreadSource from "./unread.lua";

/** Refusals, by the numbers that the scripts use. */
export const refusal: Readonly<
  Record<"unknown" | "notMember" | "tooLarge" | "full" | "duplicate" | "beyond" | "forked" | "lease", number>
> = {
  unknown: 1,
  notMember: 2,
  tooLarge: 3,
  full: 4,
  duplicate: 5,
  beyond: 6,
  forked: 7,
  lease: 8,
};

const list = (raw: unknown): unknown[] => raw as unknown[];
const texts = (raw: unknown): string[] => list(raw).map(String);
const numbers = (raw: unknown): number[] => list(raw).map(Number);

/** Cuts a flat list into groups. */
export const grouped = <T>(flat: readonly T[], size: number): T[][] => {
  const groups: T[][] = [];
  for (let from = 0; from < flat.length; from += size) groups.push(flat.slice(from, from + size));
  return groups;
};

/** A message as it is stored. */
export interface StoredMessage {
  readonly id: string;
  readonly from: string;
  readonly kind: string;
  readonly stored: Buffer;
}

/** Entries packed by cmsgpack: lists of an id and its fields, which are names and values in turn. */
const messagesOf = (raw: unknown): StoredMessage[] => {
  const bytes = raw as Buffer;
  let at = 0;
  // A list or a string: a small length is in the type itself, a larger one follows in 1, 2 or 4 bytes.
  const length = (): number => {
    const type = bytes[at++] ?? 0;
    if (type < 0xa0) return type & 0x0f;
    if (type < 0xc0) return type & 0x1f;
    const size = { 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4 }[type] ?? 0;
    at += size;
    return bytes.readUIntBE(at - size, size);
  };
  // The start and end of the next string.
  const next = (): readonly [from: number, to: number] => {
    const size = length();
    at += size;
    return [at - size, at];
  };
  return Array.from({ length: length() }, (): StoredMessage => {
    length();
    const id = bytes.toString("latin1", ...next());
    const fields = length();
    next();
    const from = bytes.toString("utf8", ...next());
    const kind = bytes.toString("latin1", ...next());
    const stored = bytes.subarray(...next());
    for (let more = 4; more < fields; more++) next();
    return { id, from, kind, stored };
  });
};

export const layout = defineScript({
  name: "chat.layout",
  source: layoutSource,
  keys: ["layout"],
  args: ["shards"],
  idempotent: true,
  // A text is the stored value, in which 0 is not a number of shards.
  reply: (shards) => (shards === 0 ? 0 : Number(shards) || NaN),
});

export const create = defineScript({
  name: "chat.create",
  source: [stateSource, createSource],
  keys: ["meta", "heads", "messages", "positions", "activity", "sentEven", "sentOdd", "layout", "...members"],
  args: ["chat", "epoch", "config", "receipts", "shards", "isSure", "...names"],
  idempotent: true,
  reply: Number,
});

export const join = defineScript({
  name: "chat.join",
  source: [stateSource, joinSource],
  keys: ["meta", "heads", "messages", "positions", "activity", "...members"],
  args: ["chat", "history", "...names"],
  idempotent: true,
  reply: numbers,
});

export const leave = defineScript({
  name: "chat.leave",
  source: [stateSource, leaveSource],
  keys: ["meta", "heads", "messages", "positions", "activity", "member"],
  args: ["chat", "user", "upTo"],
  idempotent: true,
  reply: Number,
});

export const remove = defineScript({
  name: "chat.remove",
  source: removeSource,
  keys: ["meta", "heads", "messages", "positions", "sentEven", "sentOdd", "mailbox"],
  args: ["chat"],
  idempotent: true,
  reply: texts,
});

export const forget = defineScript({
  name: "chat.forget",
  source: [stateSource, forgetSource],
  keys: ["meta", "positions", "activity", "...members"],
  args: ["chat", "...names"],
  idempotent: true,
  reply: texts,
});

/** The outcome of one message. */
export interface SendReply {
  readonly code: number;
  readonly seq: number;
  readonly at: number;
}

/** The outcome of a batch. */
export interface BatchReply {
  readonly sent: readonly SendReply[];
  /** Not 0 if there is no such chat. */
  readonly refused: number;
  /** Members that lag too far, and their positions. */
  readonly lagging: readonly { readonly member: string; readonly position: string }[];
}

export const send = defineScript({
  name: "chat.send",
  source: [stateSource, sendSource],
  keys: ["meta", "heads", "messages", "positions", "activity", "sentEven", "sentOdd", "...members"],
  args: ["chat", "call", "...items[from clientId kind body]"],
  idempotent: true,
  reply: (raw): BatchReply => {
    const [codes, lagging = []] = list(raw);
    return {
      sent: grouped(numbers(codes), 3).map(([code = 0, seq = 0, at = 0]): SendReply => ({ code, seq, at })),
      refused: list(codes).length === 1 ? Number(list(codes)[0]) : 0,
      lagging: grouped(texts(lagging), 2).map(([member = "", position = ""]) => ({ member, position })),
    };
  },
});

export const subscribe = defineScript({
  name: "chat.subscribe",
  source: [stateSource, subscribeSource],
  keys: ["...heads"],
  args: ["leaseMs"],
  idempotent: true,
  reply: Number,
});

export const ack = defineScript({
  name: "chat.ack",
  source: [stateSource, ackSource],
  keys: ["...keys[meta heads messages positions member activity]"],
  args: ["...acks[chat user sequence at]"],
  idempotent: true,
  reply: (raw) => list(raw).map((code) => (code instanceof Error ? code : Number(code))),
});

/** A chat that may have news. */
export interface Change {
  readonly chat: string;
  readonly position: number;
  readonly from: number;
  readonly epoch: string;
  /** Sequence and time of its newest message; undefined if the record is missing, so that the reader rebuilds it. */
  readonly head: number | undefined;
  readonly headAt: number | undefined;
  /** Where to start, in the form that `read.lua` has. */
  readonly start: string;
}

/** A position that moved. */
export interface MovedPosition {
  readonly chat: string;
  /** Whose position it is. */
  readonly member: string;
  readonly position: number;
}

/** News of one shard. */
export interface ShardChanges {
  readonly position: string;
  readonly isMore: boolean;
  readonly changes: readonly Change[];
  readonly left: readonly string[];
  readonly names: readonly string[];
  readonly moved: readonly MovedPosition[];
}

const changeOf = ([chat = "", membership = "", record = "", start = ""]: readonly string[]): Change => {
  const [, position, from, epoch = ""] = /^(\d+) (\d+) \S+ (.*)$/.exec(membership) ?? [];
  const [head, , headAt] = record === "" ? [] : record.split(" ").map(Number);
  return { chat, position: Number(position), from: Number(from), epoch, head, headAt, start };
};

/** Undefined for a shard without news: the reader's position in it stays. */
export const changes = defineScript({
  name: "chat.changes",
  source: [stateSource, changesSource],
  keys: ["...keys"],
  args: ["user", "limit", "names", "moves", "...positions"],
  readonly: true,
  reply: (raw): (ShardChanges | undefined)[] =>
    list(raw).map((shard): ShardChanges | undefined => {
      if (!Array.isArray(shard)) return undefined;
      const [position, isMore, found, left, names, moved] = shard as unknown[];
      return {
        position: String(position),
        isMore: Number(isMore) === 1,
        changes: grouped(texts(found), 4).map(changeOf),
        left: texts(left),
        names: texts(names),
        moved: list(moved).map((one): MovedPosition => {
          const [chat = "", member = "", position] = texts(one);
          return { chat, member, position: Number(position) };
        }),
      };
    }),
});

/** News of one chat for a reader. */
export interface ReadReply {
  readonly epoch: string;
  /** How many messages of others the member has not acknowledged. */
  readonly unread: number;
  readonly reset: "fork" | "epoch" | undefined;
  readonly gap: { readonly from: number; readonly to: number; readonly reason: "retention" | "lost" } | undefined;
  /** Whether there was no room for all messages. */
  readonly isCut: boolean;
  readonly messages: readonly StoredMessage[];
}

const resets = [undefined, "fork", "epoch"] as const;
const gapReasons = [undefined, "retention", "lost"] as const;

export const read = defineScript({
  name: "chat.read",
  source: [stateSource, readSource],
  keys: ["...keys[meta heads messages]"],
  args: ["user", "limit", "maxBytes", "...chats[name memberEpoch startEpoch start position from upTo]"],
  readonly: true,
  bytes: true,
  reply: (raw): (ReadReply | undefined)[] =>
    list(raw).map((one): ReadReply | undefined => {
      const [epoch, unread, reset, from, to, why, isCut, messages] = list(one);
      if (epoch === undefined) return undefined;
      const reason = gapReasons[Number(why)];
      return {
        epoch: String(epoch as Buffer),
        unread: Number(unread),
        reset: resets[Number(reset)],
        gap: reason && { from: Number(from), to: Number(to), reason },
        isCut: Number(isCut) === 1,
        messages: messagesOf(messages),
      };
    }),
});

/** A page of messages. */
export interface HistoryReply {
  readonly code: number;
  readonly head: number;
  readonly floor: number;
  readonly messages: readonly StoredMessage[];
}

export const history = defineScript({
  name: "chat.history",
  source: [stateSource, historySource],
  keys: ["meta", "heads", "messages", "member"],
  args: ["chat", "user", "mode", "anchor", "limit", "maxBytes"],
  readonly: true,
  bytes: true,
  reply: (raw): HistoryReply => {
    const [code, head, floor, messages] = list(raw);
    return {
      code: Number(code),
      head: Number(head),
      floor: Number(floor),
      messages: messages === undefined ? [] : messagesOf(messages),
    };
  },
});

export const unread = defineScript({
  name: "chat.unread",
  source: [stateSource, unreadSource],
  keys: ["member", "heads", "...keys[meta messages]"],
  args: ["user", "...chats"],
  readonly: true,
  reply: (raw) =>
    list(raw).map((count) => {
      if (count instanceof Error) throw count;
      return Number(count);
    }),
});

/** A page of members. */
export interface MembersReply {
  readonly code: number;
  readonly cursor: string;
  readonly members: readonly { readonly member: string; readonly position: number; readonly unread: number }[];
}

export const members = defineScript({
  name: "chat.members",
  source: [stateSource, membersSource],
  keys: ["meta", "heads", "messages", "positions"],
  args: ["chat", "cursor", "limit"],
  readonly: true,
  reply: (raw): MembersReply => {
    const [code, cursor, page = []] = list(raw);
    return {
      code: Number(code),
      cursor: String(cursor),
      members: grouped(texts(page), 3).map(([member = "", position, unread]) => ({
        member,
        position: Number(position),
        unread: Number(unread),
      })),
    };
  },
});

/** The state of a chat. */
export interface InspectReply {
  readonly code: number;
  readonly createdAt: number;
  readonly head: number;
  readonly floor: number;
  readonly headAt: number;
  readonly oldestAt: number;
  readonly members: number;
  readonly slowest: number;
}

export const inspect = defineScript({
  name: "chat.inspect",
  source: [stateSource, inspectSource],
  keys: ["meta", "heads", "messages", "positions"],
  args: ["chat"],
  readonly: true,
  reply: (raw): InspectReply => {
    const [code = 0, createdAt = 0, head = 0, floor = 0, headAt = 0, oldestAt = 0, count = 0, slowest = 0] =
      numbers(raw);
    return { code, createdAt, head, floor, headAt, oldestAt, members: count, slowest };
  },
});

/** A message that a worker is to handle. */
export interface TakenMessage extends StoredMessage {
  readonly deliveries: number;
  readonly gap: ReadReply["gap"];
}

/** Messages of a mailbox for a worker. */
export interface TakeReply {
  readonly code: number;
  /** When the next lease of another worker ends; undefined if there is none. */
  readonly nextMs: number | undefined;
  readonly messages: readonly TakenMessage[];
}

const takenOf = ([id, from, kind, stored, deliveries, gapFrom, why]: readonly unknown[]): TakenMessage => {
  const reason = String(gapFrom) === "" ? undefined : gapReasons[Number(why)];
  const to = Number.parseInt(String(id), 10) - 1;
  const gap = reason && { from: Number(String(gapFrom)), to, reason };
  const message = { id: String(id), from: String(from), kind: String(kind), stored: stored as Buffer };
  return { ...message, deliveries: Number(deliveries), gap };
};

export const take = defineScript({
  name: "chat.take",
  source: [stateSource, leasesSource, takeSource],
  keys: ["meta", "heads", "messages", "positions", "member", "mailbox"],
  args: ["chat", "token", "limit", "maxBytes", "leaseMs"],
  idempotent: true,
  bytes: true,
  reply: (raw): TakeReply => {
    const [code, nextMs, taken = []] = list(raw);
    return {
      code: Number(code),
      nextMs: Number(nextMs) < 0 ? undefined : Number(nextMs),
      messages: grouped(list(taken), 7).map(takenOf),
    };
  },
});

export const settle = defineScript({
  name: "chat.settle",
  source: [stateSource, leasesSource, settleSource],
  keys: ["meta", "heads", "messages", "positions", "activity", "member", "mailbox"],
  args: ["chat", "user", "sequence", "token", "leaseMs"],
  idempotent: true,
  reply: Number,
});

/** The state of a mailbox. */
export interface MailboxReply {
  readonly code: number;
  readonly length: number;
  readonly leased: number;
  readonly oldestAt: number;
  readonly seenAt: number;
  readonly now: number;
}

export const mailbox = defineScript({
  name: "chat.mailbox",
  source: [stateSource, leasesSource, mailboxSource],
  keys: ["meta", "heads", "messages", "positions", "member", "mailbox"],
  args: ["chat"],
  readonly: true,
  reply: (raw): MailboxReply => {
    const [code = 0, length = 0, leased = 0, oldestAt = 0, seenAt = 0, now = 0] = numbers(raw);
    return { code, length, leased, oldestAt, seenAt, now };
  },
});
