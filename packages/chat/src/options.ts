import {
  booleanOption,
  choiceOption,
  clientOptionNames,
  type ClientOptions,
  clientSettings,
  type ClientSettings,
  integerOption,
  optionsObject,
  signalOption,
  textOption,
} from "@kit/core/toolkit";

/** Settings of a chat object. */
export interface ChatOptions extends ClientOptions {
  /**
   * The number of parts into which the chats are divided, 1 to 256. On a Cluster they spread over its nodes, and a waiting
   * process needs a connection for each. The first user of a prefix stores the number, which then holds for all.
   *
   * @default 16
   */
  readonly shards?: number | undefined;
  /**
   * The largest body that this object sends, in bytes. A chat has a limit of its own as well.
   *
   * @default 65536
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * How many sends or acknowledgements may wait in this process, for each chat or shard. Further ones reject.
   *
   * @default 10000
   */
  readonly maxPending?: number | undefined;
}

/** Reasons to drop a message. Any one is enough; reasons that are not given do not apply. */
export interface Retention {
  /** There are this many newer ones. At most 1,000,000,000. */
  readonly count?: number | undefined;
  /** It is older than this many milliseconds. */
  readonly ageMs?: number | undefined;
  /** The bodies of newer ones take this many bytes. At least `maxBodyBytes`. */
  readonly bytes?: number | undefined;
  /** All members have acknowledged it. */
  readonly readByAll?: boolean | undefined;
}

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
   * The effect of a message that exceeds `retain.count` or `retain.bytes`: the oldest is dropped, or the new one is refused
   * with ChatFullError. Refusing needs `readByAll` or `ageMs`, so that space becomes free again.
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
   * Members are removed from the chat when they leave more than this many messages of others unacknowledged, or any message for longer
   * than this many milliseconds. The next send finds them.
   *
   * @default nobody is removed
   */
  readonly lag?: { readonly messages?: number | undefined; readonly ageMs?: number | undefined } | undefined;
  /**
   * The largest body that the chat accepts, in bytes.
   *
   * @default that of the chat object
   */
  readonly maxBodyBytes?: number | undefined;
  /**
   * For how many milliseconds the same client id of the same sender means the same message; the chat may remember it for
   * twice as long.
   *
   * @default 600000
   */
  readonly dedupeMs?: number | undefined;
  /**
   * Whether members hear of each other's positions, as of receipts: see `positions` of `fetch`, `wait` and `listen`. Without it
   * each hears only of its own, that another device has moved.
   *
   * @default false
   */
  readonly receipts?: boolean | undefined;
}

/** Settings of a mailbox, fixed at its creation. Acknowledged messages are always dropped. */
export interface MailboxOptions extends Pick<CreateOptions, "maxBodyBytes" | "dedupeMs"> {
  /**
   * When an unacknowledged message is dropped.
   *
   * @default { count: 10_000 }
   */
  readonly retain?: Omit<Retention, "readByAll"> | undefined;
  /**
   * The effect of a message that exceeds `retain.count` or `retain.bytes`: it is refused with ChatFullError, or the oldest is
   * dropped.
   *
   * @default "refuse"
   */
  readonly whenFull?: "drop" | "refuse" | undefined;
}

/** How much a worker takes from a mailbox, and for how long. */
export interface TakeOptions extends Pick<FetchOptions, "maxBytes"> {
  /**
   * How many messages at most, 1 to 100.
   *
   * @default 1
   */
  readonly limit?: number | undefined;
  /**
   * For how long no other worker gets them, in milliseconds by the server's clock.
   *
   * @default 30000
   */
  readonly leaseMs?: number | undefined;
  /**
   * How long to wait for the first one, in milliseconds.
   *
   * @default 0
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** The copies that a message must have before `send` resolves; see core's `durable`. */
export interface DurableOption {
  /** @default 1 */
  readonly replicas?: number | undefined;
  /** @default "none" */
  readonly fsync?: "none" | "local" | "replicas" | undefined;
  /** @default 1000 */
  readonly timeoutMs?: number | undefined;
}

/** One message to send. */
export interface SendOptions<Body> {
  /** The sender. */
  readonly from: string;
  /** Text, bytes (`Uint8Array`), or what JSON can hold. */
  readonly body: Body;
  /**
   * The sender's own id of the message, 1 to 128 characters: sending it again gives the first message with the first body.
   *
   * @default a random one, so that a lost reply never duplicates a message
   */
  readonly clientId?: string | undefined;
  /** Waits for copies of the message. Such a send has a dedicated connection and does not travel together with others. */
  readonly durable?: DurableOption | undefined;
  /** Rejects the call with `signal.reason`; a message that was already sent may arrive. */
  readonly signal?: AbortSignal | undefined;
}

/** How much to fetch. */
export interface FetchOptions {
  /** The token of this reader's last page. Without it, all that the member has not acknowledged. */
  readonly token?: string | undefined;
  /**
   * How many messages at most, 1 to 10,000.
   *
   * @default 500
   */
  readonly limit?: number | undefined;
  /**
   * How many bytes of bodies at most; one message is returned in any case.
   *
   * @default 1048576
   */
  readonly maxBytes?: number | undefined;
  /**
   * Acknowledges the messages before they are returned: at most once. They are lost if the process ends in between, or if
   * the call rejects after a part was acknowledged.
   *
   * @default false
   */
  readonly autoAck?: boolean | undefined;
  /**
   * Whether this reader is told of positions that moved: the member's own, also by this device, and in chats with `receipts`
   * everybody's. They are hints, announced while somebody asks for them, on any chat object, and for 30 s more; a reader that
   * begins, or was away for longer, asks `unread()`.
   *
   * @default false
   */
  readonly positions?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How long to wait. */
export interface WaitOptions extends Pick<FetchOptions, "token" | "positions" | "signal"> {
  /**
   * How long at most, in milliseconds.
   *
   * @default unlimited
   */
  readonly waitMs?: number | undefined;
}

/** How to listen. */
export interface ListenOptions extends Pick<FetchOptions, "token" | "maxBytes" | "positions" | "signal"> {
  /**
   * How many messages are fetched at once.
   *
   * @default 100
   */
  readonly limit?: number | undefined;
  /**
   * How many delivered messages may be not done; beyond that nothing more is fetched.
   *
   * @default 1000
   */
  readonly maxInFlight?: number | undefined;
}

/** Where a page of history begins: before, after or around a sequence, or at a time in epoch milliseconds. One of them. */
export interface HistoryOptions extends Pick<FetchOptions, "maxBytes"> {
  /** @default the end of the chat */
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  readonly around?: number | undefined;
  readonly at?: number | undefined;
  /**
   * How many messages at most, 1 to 1,000.
   *
   * @default 50
   */
  readonly limit?: number | undefined;
  /**
   * Shows only what this member may see: nothing from before it joined, except the history that it was given.
   *
   * @default all messages that are kept
   */
  readonly member?: string | undefined;
}

/** How to follow a chat. */
export interface TailOptions {
  /**
   * How many of the existing messages come first.
   *
   * @default 10
   */
  readonly last?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How much of the history a new member gets. */
export interface JoinOptions {
  /**
   * Nothing, all messages that are kept, this many of the last ones, or those after a sequence, for a member that returns.
   *
   * @default "none"
   */
  readonly history?: "none" | "all" | number | { readonly after: number } | undefined;
}

/** A page of members. */
export interface MembersOptions {
  /** The last page's `cursor`; without it, the first page. */
  readonly cursor?: string | undefined;
  /**
   * About how many, 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number | undefined;
}

/** Checked, with every default filled in; options without one may be undefined. */
type Resolved<Options, None extends keyof Options> = {
  readonly [Name in keyof Options]-?: Name extends None ? Options[Name] | undefined : NonNullable<Options[Name]>;
};
export type ResolvedTakeOptions = Resolved<TakeOptions, "signal">;
export type ResolvedFetchOptions = Resolved<FetchOptions, "token" | "signal">;
export type ResolvedListenOptions = ResolvedFetchOptions & Pick<Resolved<ListenOptions, "signal">, "maxInFlight">;

/** Checked, with every default filled in. */
export interface ChatSettings extends ClientSettings {
  readonly shards: number;
  readonly maxBodyBytes: number;
  readonly maxPending: number;
}

/** The default number of shards of a prefix. */
export const defaultShards = 16;

const mostBytes = 512 * 1024 * 1024;
const yearsMs = 100 * 365 * 86_400_000;

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const chatSettings = (options: ChatOptions): ChatSettings => {
  const given = optionsObject("options", options, [...clientOptionNames, "shards", "maxBodyBytes", "maxPending"]);
  const { shards = defaultShards, maxBodyBytes = 65_536, maxPending = 10_000 } = given;
  return {
    ...clientSettings(given),
    shards: integerOption("shards", shards, 1, 256),
    maxBodyBytes: integerOption("maxBodyBytes", maxBodyBytes, 1, mostBytes),
    maxPending: integerOption("maxPending", maxPending, 1),
  };
};

/** The first members, and the settings in the form that `openChat` in `state.lua` reads: ten numbers. */
export interface Creation {
  readonly members: readonly string[];
  readonly config: string;
  readonly receipts: boolean;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const creation = (options: CreateOptions, defaultMaxBody: number, isMailbox = false): Creation => {
  const names = ["members", "retain", "whenFull", "senders", "lag", "maxBodyBytes", "dedupeMs", "receipts"];
  const given = optionsObject("options", options, names);
  const { members = [], whenFull = "drop", senders = "members", dedupeMs = 600_000 } = given;
  const { maxBodyBytes = defaultMaxBody, receipts = false } = given;
  if (!Array.isArray(members)) throw new TypeError("Expected `members` to be an array of names");
  const retain = optionsObject<Retention>("retain", given.retain ?? { count: 10_000 }, [
    "count",
    "ageMs",
    "bytes",
    "readByAll",
  ]);
  const { count, ageMs, bytes, readByAll = false } = retain;
  const lag = optionsObject("lag", given.lag ?? {}, ["messages", "ageMs"]);
  const optional = (name: string, value: number | undefined, min: number, max: number): number =>
    value === undefined ? 0 : integerOption(name, value, min, max);
  const maxBody = integerOption("maxBodyBytes", maxBodyBytes, 1, mostBytes);
  const config = [
    optional("retain.count", count, 1, 1_000_000_000),
    optional("retain.ageMs", ageMs, 1, yearsMs),
    optional("retain.bytes", bytes, maxBody, Number.MAX_SAFE_INTEGER),
    booleanOption("retain.readByAll", readByAll) ? 1 : 0,
    choiceOption("whenFull", whenFull, ["drop", "refuse"]) === "refuse" ? 1 : 0,
    isMailbox ? 2 : choiceOption("senders", senders, ["members", "anyone"]) === "anyone" ? 1 : 0,
    maxBody,
    optional("lag.messages", lag.messages, 1, 1_000_000_000),
    optional("lag.ageMs", lag.ageMs, 1, yearsMs),
    integerOption("dedupeMs", dedupeMs, 1_000, yearsMs),
  ];
  if (whenFull === "refuse" && !readByAll && ageMs === undefined)
    throw new RangeError("Expected `retain` to have `readByAll` or `ageMs` where `whenFull` is refuse");
  return { members: [...new Set(members)], config: config.join(" "), receipts: booleanOption("receipts", receipts) };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const mailboxCreation = (name: string, options: MailboxOptions, defaultMaxBody: number): Creation => {
  const given = optionsObject("options", options, ["retain", "whenFull", "maxBodyBytes", "dedupeMs"]);
  const retain = optionsObject("retain", given.retain ?? { count: 10_000 }, ["count", "ageMs", "bytes"]);
  const { whenFull = "refuse", maxBodyBytes, dedupeMs } = given;
  const made = { members: [name], retain: { ...retain, readByAll: true }, whenFull, maxBodyBytes, dedupeMs };
  return creation(made, defaultMaxBody, true);
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const leaseOption = (leaseMs: number): number => integerOption("leaseMs", leaseMs, 1, yearsMs);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveTakeOptions = (options: TakeOptions): ResolvedTakeOptions => {
  const given = optionsObject("options", options, ["limit", "maxBytes", "leaseMs", "waitMs", "signal"]);
  const { limit = 1, maxBytes = 1_048_576, leaseMs = 30_000, waitMs = 0, signal } = given;
  return {
    limit: integerOption("limit", limit, 1, 100),
    maxBytes: integerOption("maxBytes", maxBytes, 1),
    leaseMs: leaseOption(leaseMs),
    waitMs: integerOption("waitMs", waitMs, 0),
    signal: signalOption("signal", signal),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveSendOptions = <Body>(options: SendOptions<Body>): SendOptions<Body> => {
  const given = optionsObject("options", options, ["from", "body", "clientId", "durable", "signal"]);
  if (given.clientId !== undefined) textOption("clientId", given.clientId, 128);
  if (given.durable !== undefined) optionsObject("durable", given.durable, ["replicas", "fsync", "timeoutMs"]);
  signalOption("signal", given.signal);
  return given;
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveFetchOptions = (options: FetchOptions): ResolvedFetchOptions => {
  const given = optionsObject("options", options, ["token", "limit", "maxBytes", "autoAck", "positions", "signal"]);
  const { token, limit = 500, maxBytes = 1_048_576, autoAck = false, positions = false, signal } = given;
  return {
    token,
    limit: integerOption("limit", limit, 1, 10_000),
    maxBytes: integerOption("maxBytes", maxBytes, 1),
    autoAck: booleanOption("autoAck", autoAck),
    positions: booleanOption("positions", positions),
    signal: signalOption("signal", signal),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveWaitOptions = (options: WaitOptions): WaitOptions => {
  const given = optionsObject("options", options, ["token", "waitMs", "positions", "signal"]);
  if (given.waitMs !== undefined) integerOption("waitMs", given.waitMs, 0);
  if (given.positions !== undefined) booleanOption("positions", given.positions);
  signalOption("signal", given.signal);
  return given;
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveListenOptions = (options: ListenOptions): ResolvedListenOptions => {
  const given = optionsObject("options", options, ["token", "limit", "maxBytes", "maxInFlight", "positions", "signal"]);
  const { maxInFlight = 1_000, token, limit = 100, maxBytes, positions, signal } = given;
  return {
    ...resolveFetchOptions({ token, limit, maxBytes, positions, signal }),
    maxInFlight: integerOption("maxInFlight", maxInFlight, 1),
  };
};

const historyModes = ["before", "after", "around", "at"] as const;

/** The operands of `history.lua`. */
export interface ResolvedHistoryOptions extends Pick<Resolved<HistoryOptions, never>, "limit" | "maxBytes"> {
  readonly mode: (typeof historyModes)[number];
  readonly anchor: number;
  readonly user: string;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveHistoryOptions = (options: HistoryOptions): ResolvedHistoryOptions => {
  const given = optionsObject("options", options, [...historyModes, "limit", "maxBytes", "member"]);
  const { limit = 50, maxBytes = 1_048_576, member } = given;
  const [mode = "before", ...others] = historyModes.filter((name) => given[name] !== undefined);
  if (others.length > 0) throw new TypeError(`Expected one of ${historyModes.join(", ")}, got several`);
  return {
    mode,
    anchor: given[mode] === undefined ? Number.MAX_SAFE_INTEGER : integerOption(mode, given[mode], 0),
    limit: integerOption("limit", limit, 1, 1_000),
    maxBytes: integerOption("maxBytes", maxBytes, 1),
    user: member === undefined ? "" : textOption("member", member, 512),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveTailOptions = (
  options: TailOptions,
): { readonly last: number; readonly signal: AbortSignal | undefined } => {
  const { last = 10, signal } = optionsObject("options", options, ["last", "signal"]);
  return { last: integerOption("last", last, 0), signal: signalOption("signal", signal) };
};

/**
 * The history that a new member gets, as `join.lua` reads it.
 *
 * @throws {TypeError | RangeError} an option is not what it should be.
 */
export const historyText = (options: JoinOptions): string => {
  const { history = "none" } = optionsObject("options", options, ["history"]);
  if (typeof history === "number") return `last ${String(integerOption("history", history, 0))}`;
  if (typeof history === "string") return choiceOption("history", history, ["none", "all"]);
  const { after } = optionsObject("history", history, ["after"]);
  return `after ${String(integerOption("history.after", after, 0))}`;
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveMembersOptions = (options: MembersOptions): { readonly cursor: string; readonly limit: number } => {
  const { cursor = "0", limit = 100 } = optionsObject("options", options, ["cursor", "limit"]);
  if (!/^\d{1,20}$/.test(textOption("cursor", cursor, 20)))
    throw new RangeError("Expected `cursor` to come from a page of members");
  return { cursor, limit: integerOption("limit", limit, 1, 1_000) };
};
