import {
  boolean,
  choice,
  clientRules,
  type ClientOptions,
  custom,
  defaultsOf,
  integer,
  integerOption,
  matching,
  nested,
  required,
  resolve,
  type Resolved,
  type RulesOf,
  signal,
  text,
} from "@kit/core/toolkit";

const mostBytes = 512 * 1024 * 1024;
const yearsMs = 100 * 365 * 86_400_000;

/** The history that a new member gets, as `join.lua` reads it. */
const historyText = (name: string, history: NonNullable<JoinOptions["history"]>): string => {
  if (typeof history === "number") return `last ${String(integerOption(name, history, 0))}`;
  if (typeof history === "string") return choice(["none", "all"]).check(name, history) as string;
  return `after ${String(resolve(name, history, { after: required(integer(0)) }, undefined, `${name}.`).after)}`;
};

/** Settings of a chat object. */
export interface ChatOptions extends ClientOptions {
  /**
   * The number of shards that hold the chats, 1 to 256. On a Cluster, the shards spread over the nodes, and a waiting process opens
   * one connection per shard. The first object that uses a prefix stores the number. Later objects use the stored number and ignore
   * theirs.
   *
   * @default 16
   */
  readonly shards?: number | undefined;
  /**
   * The largest body that this object sends, in bytes. Each chat has its own limit as well.
   *
   * @default 65536
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * The maximum number of sends per chat, and of acknowledgements per shard, that wait in this process. Further calls reject with
   * `KIT_CHAT_BUSY`.
   *
   * @default 10000
   */
  readonly maxPending?: number | undefined;
}

/** The default number of shards of a prefix. */
export const defaultShards = 16;

export const chatRules = {
  ...clientRules,
  shards: integer(1, 256, defaultShards),
  maxBodyBytes: integer(1, mostBytes, 65_536),
  maxPending: integer(1, undefined, 10_000),
} satisfies RulesOf<ChatOptions>;

export type ChatSettings = Resolved<typeof chatRules>;

/** When to drop a message. A message is dropped as soon as one condition applies. Conditions that you don't set have no effect. */
export interface Retention {
  /** Drops a message that has this many newer messages, 1 to 1,000,000,000. */
  readonly count?: number | undefined;
  /** Drops a message that is older than this many milliseconds. */
  readonly ageMs?: number | undefined;
  /** Drops a message when the bodies of newer messages use this many bytes. Must be at least `maxBodyBytes`. */
  readonly bytes?: number | undefined;
  /**
   * Drops a message that all members have acknowledged. The slowest member delays this: also set `count`, `ageMs` or `lag`.
   *
   * @default false
   */
  readonly readByAll?: boolean | undefined;
}

const boundRules = { count: integer(1, 1_000_000_000), ageMs: integer(1, yearsMs), bytes: integer(1) };
const retentionRules = { ...boundRules, readByAll: boolean(false) } satisfies RulesOf<Retention>;

/** Settings of a chat, fixed at its creation. */
export interface CreateOptions {
  /**
   * The first members. A repeated name counts once.
   *
   * @default []
   */
  readonly members?: readonly string[] | undefined;
  /**
   * When a message is dropped.
   *
   * @default { count: 10_000 }
   */
  readonly retain?: Retention | undefined;
  /**
   * The policy for a message that exceeds `retain.count` or `retain.bytes`: `"drop"` drops the oldest message, `"refuse"` rejects the
   * new one with ChatFullError. `"refuse"` needs `readByAll` or `ageMs`, which free space again.
   *
   * @default "drop"
   */
  readonly whenFull?: "drop" | "refuse" | undefined;
  /**
   * Whether only members may send, or anyone.
   *
   * @default "members"
   */
  readonly senders?: "members" | "anyone" | undefined;
  /**
   * When a lagging member is removed: it has more than `messages` unacknowledged messages of others, or one for longer than `ageMs`
   * milliseconds. The next send removes it.
   *
   * @default no member is removed
   */
  readonly lag?: { readonly messages?: number | undefined; readonly ageMs?: number | undefined } | undefined;
  /**
   * The largest body that the chat accepts, in bytes.
   *
   * @default the chat object's `maxBodyBytes`
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * How long a sender's repeated client id means the same message, in milliseconds. The chat may remember the id for twice as long.
   *
   * @default 600000
   */
  readonly dedupeMs?: number | undefined;
  /**
   * Whether members receive each other's positions as read receipts: see `positions` of `fetch`, `wait` and `listen`. Without
   * `receipts`, a member receives only its own position, which its other devices move.
   *
   * @default false
   */
  readonly receipts?: boolean | undefined;
}

export const createRules = {
  members: custom((name, members: readonly string[]) => {
    if (!Array.isArray(members)) throw new TypeError(`Expected \`${name}\` to be an array of names`);
    return members;
  }, []),
  retain: nested(retentionRules, defaultsOf(retentionRules, { count: 10_000 })),
  whenFull: choice(["drop", "refuse"], "drop"),
  senders: choice(["members", "anyone"], "members"),
  lag: nested({ messages: integer(1, 1_000_000_000), ageMs: integer(1, yearsMs) }),
  maxBodyBytes: integer(1, mostBytes),
  dedupeMs: integer(1_000, yearsMs, 600_000),
  receipts: boolean(false),
} satisfies RulesOf<CreateOptions>;

/** Settings of a mailbox, fixed at its creation. Acknowledged messages are always dropped. */
export interface MailboxOptions extends Pick<CreateOptions, "maxBodyBytes" | "dedupeMs"> {
  /**
   * When an unacknowledged message is dropped.
   *
   * @default { count: 10_000 }
   */
  readonly retain?: Omit<Retention, "readByAll"> | undefined;
  /**
   * The policy for a message that exceeds `retain.count` or `retain.bytes`: `"refuse"` rejects it with ChatFullError, `"drop"` drops
   * the oldest message.
   *
   * @default "refuse"
   */
  readonly whenFull?: "drop" | "refuse" | undefined;
}

export const mailboxRules = {
  retain: nested(boundRules, defaultsOf(boundRules, { count: 10_000 })),
  whenFull: choice(["drop", "refuse"], "refuse"),
  maxBodyBytes: createRules.maxBodyBytes,
  dedupeMs: createRules.dedupeMs,
} satisfies RulesOf<MailboxOptions>;

/** How many messages a worker takes from a mailbox, and for how long. */
export interface TakeOptions extends Pick<FetchOptions, "maxBytes"> {
  /**
   * The maximum number of messages, 1 to 100.
   *
   * @default 1
   */
  readonly limit?: number | undefined;
  /**
   * How long no other worker receives the messages, in milliseconds of the server's clock.
   *
   * @default 30000
   */
  readonly leaseMs?: number | undefined;
  /**
   * How long to wait for the first message, in milliseconds.
   *
   * @default 0
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

export const takeRules = {
  limit: integer(1, 100, 1),
  maxBytes: integer(1, undefined, 1_048_576),
  leaseMs: integer(1, yearsMs, 30_000),
  waitMs: integer(0, undefined, 0),
  signal,
} satisfies RulesOf<TakeOptions>;

export type ResolvedTakeOptions = Resolved<typeof takeRules>;

/** The replicas and disks that must have a message before `send` resolves; see core's `durable`. */
export interface DurableOption {
  /**
   * How many replicas must have received the message.
   *
   * @default 1
   */
  readonly replicas?: number | undefined;
  /**
   * The disks that must have the message: no disk, the master's disk, or the disks of the master and `replicas` replicas.
   *
   * @default "none"
   */
  readonly fsync?: "none" | "local" | "replicas" | undefined;
  /**
   * How long to wait for replicas and disks, in milliseconds.
   *
   * @default 1000
   */
  readonly timeoutMs?: number | undefined;
}

/** Core's `durable()` checks them again. */
const durableRules = {
  replicas: integer(0, 1_000, 1),
  fsync: choice(["none", "local", "replicas"], "none"),
  timeoutMs: integer(1, 2 ** 31 - 1, 1_000),
} satisfies RulesOf<DurableOption>;

/** One message to send. */
export interface SendOptions<Body> {
  /** The sender. */
  readonly from: string;
  /** Text, bytes (`Uint8Array`), or any value that JSON can represent. */
  readonly body: Body;
  /**
   * Your id for the message, 1 to 128 characters. A repeated send with this id stores nothing, and returns the first message.
   *
   * @default a random one, so that a lost reply never duplicates a message
   */
  readonly clientId?: string | undefined;
  /** Waits until replicas or disks have the message. The send uses a dedicated connection, and shares no batch with other sends. */
  readonly durable?: DurableOption | undefined;
  /** Rejects the call with `signal.reason`. A message that was already sent may still arrive. */
  readonly signal?: AbortSignal | undefined;
}

export const sendRules = {
  from: required(custom((_name, from: string) => from)),
  body: required(custom((_name, body: unknown) => body)),
  clientId: text(128),
  durable: custom((name, durable: DurableOption) => resolve(name, durable, durableRules)),
  signal,
} satisfies RulesOf<SendOptions<unknown>>;

export type ResolvedSendOptions = Resolved<typeof sendRules>;

/** How much to fetch. */
export interface FetchOptions {
  /** The token of this reader's last page. Without it, all messages that the member has not acknowledged are returned. */
  readonly token?: string | undefined;
  /**
   * The maximum number of messages, 1 to 10,000.
   *
   * @default 500
   */
  readonly limit?: number | undefined;
  /**
   * The maximum total size of the bodies, in bytes. The first message may be larger.
   *
   * @default 1048576
   */
  readonly maxBytes?: number | undefined;
  /**
   * Acknowledges the messages before they are returned, so that each is delivered at most once. They are lost if the process ends
   * before the call returns, or if the call rejects after it acknowledged some.
   *
   * @default false
   */
  readonly autoAck?: boolean | undefined;
  /**
   * Whether this reader receives positions that moved: the member's own, even if this device moved it, and in chats with `receipts`
   * every member's. A move can be missed: kit announces moves only while any reader in any process has this option, and for 30 s
   * afterward. Call `unread()` when a reader starts, or was offline for longer.
   *
   * @default false
   */
  readonly positions?: boolean | undefined;
  /** Rejects the call with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

export const fetchRules = {
  token: custom((_name, token: string) => token),
  limit: integer(1, 10_000, 500),
  maxBytes: takeRules.maxBytes,
  autoAck: boolean(false),
  positions: boolean(false),
  signal,
} satisfies RulesOf<FetchOptions>;

export type ResolvedFetchOptions = Resolved<typeof fetchRules>;

/** How long to wait. */
export interface WaitOptions extends Pick<FetchOptions, "token" | "positions" | "signal"> {
  /**
   * The maximum time to wait, in milliseconds.
   *
   * @default unlimited
   */
  readonly waitMs?: number | undefined;
}

export const waitRules = {
  token: fetchRules.token,
  waitMs: integer(0),
  positions: fetchRules.positions,
  signal,
} satisfies RulesOf<WaitOptions>;

export type ResolvedWaitOptions = Resolved<typeof waitRules>;

/** How to listen. */
export interface ListenOptions extends Pick<FetchOptions, "token" | "maxBytes" | "positions" | "signal"> {
  /**
   * How many messages are fetched together.
   *
   * @default 100
   */
  readonly limit?: number | undefined;
  /**
   * The maximum number of delivered messages that are not done. At this number, nothing more is fetched.
   *
   * @default 1000
   */
  readonly maxInFlight?: number | undefined;
}

export const listenRules = {
  token: fetchRules.token,
  limit: integer(1, 10_000, 100),
  maxBytes: fetchRules.maxBytes,
  maxInFlight: integer(1, undefined, 1_000),
  positions: fetchRules.positions,
  signal,
} satisfies RulesOf<ListenOptions>;

export type ResolvedListenOptions = Resolved<typeof listenRules>;

/** Where a page of history starts. Set at most one of `before`, `after`, `around` and `at`. */
export interface HistoryOptions extends Pick<FetchOptions, "maxBytes"> {
  /**
   * The messages before this sequence.
   *
   * @default the end of the chat
   */
  readonly before?: number | undefined;
  /** The messages after this sequence. */
  readonly after?: number | undefined;
  /** The messages around this sequence. */
  readonly around?: number | undefined;
  /** The messages from this time, in epoch milliseconds. */
  readonly at?: number | undefined;
  /**
   * The maximum number of messages, 1 to 1,000.
   *
   * @default 50
   */
  readonly limit?: number | undefined;
  /**
   * Shows only what this member may see: no messages from before it joined, except the history that it received.
   *
   * @default all messages that are kept
   */
  readonly member?: string | undefined;
}

const anchorRules = { before: integer(0), after: integer(0), around: integer(0), at: integer(0) };
export const historyRules = {
  ...anchorRules,
  limit: integer(1, 1_000, 50),
  maxBytes: fetchRules.maxBytes,
  member: text(512),
} satisfies RulesOf<HistoryOptions>;

/** How to follow a chat. */
export interface TailOptions {
  /**
   * How many existing messages are delivered first.
   *
   * @default 10
   */
  readonly last?: number | undefined;
  /** Ends the iteration with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

export const tailRules = { last: integer(0, undefined, 10), signal } satisfies RulesOf<TailOptions>;

/** How much of the history a new member receives. */
export interface JoinOptions {
  /**
   * A number: that many of the last messages. `"all"`: every message that is kept. `after`: the messages after a sequence, for a
   * member that returns.
   *
   * @default "none"
   */
  readonly history?: "none" | "all" | number | { readonly after: number } | undefined;
}

export const joinRules = { history: custom(historyText, "none") } satisfies RulesOf<JoinOptions>;

/** A page of members. */
export interface MembersOptions {
  /**
   * The last page's `cursor`.
   *
   * @default the first page
   */
  readonly cursor?: string | undefined;
  /**
   * About how many members a page has, 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number | undefined;
}

export const membersRules = {
  cursor: matching(text(20, "0"), /^\d{1,20}$/, "to be the cursor of a page of members"),
  limit: integer(1, 1_000, 100),
} satisfies RulesOf<MembersOptions>;

export type ResolvedMembersOptions = Resolved<typeof membersRules>;

/** The first members, and the settings in the form that `openChat` in `state.lua` reads: ten numbers. */
export interface Creation {
  readonly members: readonly string[];
  readonly config: string;
  readonly receipts: boolean;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const creation = (options: CreateOptions, { maxBodyBytes }: ChatSettings): Creation =>
  creationOf(resolve("options", options, createRules, { ...defaultsOf(createRules), maxBodyBytes }));

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const mailboxCreation = (name: string, options: MailboxOptions, { maxBodyBytes }: ChatSettings): Creation => {
  const own = resolve("options", options, mailboxRules, { ...defaultsOf(mailboxRules), maxBodyBytes });
  const retain = { ...own.retain, readByAll: true };
  return creationOf({ ...defaultsOf(createRules), ...own, members: [name], retain }, true);
};

type CreateSettings = Resolved<typeof createRules> & { readonly maxBodyBytes: number };

const creationOf = (settings: CreateSettings, isMailbox = false): Creation => {
  const { members, retain, whenFull, senders, lag, maxBodyBytes, dedupeMs, receipts } = settings;
  const { count = 0, ageMs = 0, bytes = 0, readByAll } = retain;
  if (bytes > 0) integerOption("retain.bytes", bytes, maxBodyBytes);
  if (whenFull === "refuse" && !readByAll && ageMs === 0)
    throw new RangeError('Expected `retain` to set `readByAll` or `ageMs` with `whenFull: "refuse"`');
  const config = [
    ...[count, ageMs, bytes, readByAll ? 1 : 0],
    whenFull === "refuse" ? 1 : 0,
    isMailbox ? 2 : senders === "anyone" ? 1 : 0,
    ...[maxBodyBytes, lag?.messages ?? 0, lag?.ageMs ?? 0, dedupeMs],
  ];
  return { members: [...new Set(members)], config: config.join(" "), receipts };
};

const historyModes = Object.keys(anchorRules) as readonly (keyof typeof anchorRules)[];

/** The operands of `history.lua`. */
export interface ResolvedHistoryOptions extends Pick<Resolved<typeof historyRules>, "limit" | "maxBytes"> {
  readonly mode: keyof typeof anchorRules;
  readonly anchor: number;
  readonly user: string;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveHistoryOptions = (options: HistoryOptions): ResolvedHistoryOptions => {
  const { limit, maxBytes, member = "", ...anchors } = resolve("options", options, historyRules);
  const [mode = "before", ...others] = historyModes.filter((name) => anchors[name] !== undefined);
  if (others.length > 0) throw new TypeError(`Expected at most one of ${historyModes.join(", ")}`);
  return { mode, anchor: anchors[mode] ?? Number.MAX_SAFE_INTEGER, limit, maxBytes, user: member };
};
