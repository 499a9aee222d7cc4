import { ChatTokenError } from "../errors.js";

/** The last message of a chat that a reader received. */
interface Delivered {
  readonly epoch: string;
  readonly seq: number;
  readonly at: number;
}

/** The position of a reader, which its token holds. A member's position in a chat is another thing: what it acknowledged. */
export interface ReaderPosition {
  /** In the activity of each shard, in the form that `changes.lua` has. */
  readonly shards: string[];
  /** In chats whose messages did not all fit into a page. */
  readonly delivered: Map<string, Delivered>;
}

const version = 1;
const shardForm = /^(a \d{1,20}-\d{1,20}|w \d{1,20} \d{1,20}-\d{1,20} (-|\d{1,15}))?$/;

/** Ids of streams and cursors of scans are below 2^64. */
const largest = "18446744073709551615";
const isShardPosition = (value: unknown): value is string =>
  typeof value === "string" &&
  shardForm.test(value) &&
  (value.match(/\d{20}/g) ?? []).every((digits) => digits <= largest);

/** A token is decoded on a server's event loop, and may come from anyone. This limit is several times what a genuine token needs. */
const mostChats = 3_900;
const mostCharacters = 1_048_576;

/** Nothing was read yet. */
export const startPosition = (shards: number): ReaderPosition => ({
  shards: Array.from({ length: shards }, () => ""),
  delivered: new Map(),
});

/** The token of a member's reader. Where it would be refused, it names only the newest chats: the others may be returned again. */
export const encodeToken = (member: string, { shards, delivered }: ReaderPosition): string => {
  const all = Array.from(delivered, ([chat, { epoch, seq, at }]) => [chat, epoch, seq, at]);
  for (let most = mostChats; ; most = Math.floor(most / 2)) {
    const last = most > 0 ? all.slice(-most) : [];
    const token = Buffer.from(JSON.stringify([version, member, shards, last])).toString("base64url");
    if (token.length <= mostCharacters) return token;
  }
};

const isDelivered = (value: unknown): value is [string, string, number, number] =>
  Array.isArray(value) &&
  typeof value[0] === "string" &&
  typeof value[1] === "string" &&
  Number.isSafeInteger(value[2]) &&
  Number.isSafeInteger(value[3]) &&
  (value[2] as number) >= 0 &&
  (value[3] as number) >= 0;

const parsed = (token: string): unknown => {
  try {
    return JSON.parse(Buffer.from(token, "base64url").toString());
  } catch {
    return undefined;
  }
};

/**
 * A token may come from a browser, so it only decides where to start: `changes.lua` looks up what the member may see. A token for
 * another number of shards starts again at the member's positions.
 *
 * @throws {TypeError} the token is not a string.
 * @throws {ChatTokenError} the token is damaged or too large, or belongs to another member.
 */
export const decodeToken = (member: string, token: string | undefined, shards: number): ReaderPosition => {
  if (token === undefined) return startPosition(shards);
  if (typeof token !== "string") throw new TypeError("Expected `token` to be a string");
  const refusal = new ChatTokenError(member);
  if (token.length > mostCharacters) throw refusal;
  const content = parsed(token);
  if (!Array.isArray(content) || content[0] !== version || content[1] !== member) throw refusal;
  const [, , positions, last] = content as unknown[];
  if (!Array.isArray(positions) || !positions.every(isShardPosition)) throw refusal;
  if (!Array.isArray(last) || last.length > mostChats || !last.every(isDelivered)) throw refusal;
  if (positions.length !== shards) return startPosition(shards);
  return {
    shards: positions,
    delivered: new Map(last.map(([chat, epoch, seq, at]) => [chat, { epoch, seq, at }])),
  };
};
