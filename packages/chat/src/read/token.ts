import { ChatTokenError } from "../errors.js";

/** The last message of a chat that a reader received. */
interface Cursor {
  readonly epoch: string;
  readonly seq: number;
  readonly at: number;
}

/** The place of a reader: in each shard (a `part` of `changes.lua`), and in chats of which a page gave only a part. */
export interface Standing {
  readonly parts: string[];
  readonly delivered: Map<string, Cursor>;
}

const version = 1;
const partForm = /^(a \d{1,20}-\d{1,20}|w \d{1,20} \d{1,20}-\d{1,20} (-|\d{1,15}))?$/;

/** Ids of streams and cursors of scans are below 2^64. */
const largest = "18446744073709551615";
const isPart = (part: unknown): part is string =>
  typeof part === "string" && partForm.test(part) && (part.match(/\d{20}/g) ?? []).every((digits) => digits <= largest);

/** Nothing was read yet. */
export const nowhere = (shards: number): Standing => ({
  parts: Array.from({ length: shards }, () => ""),
  delivered: new Map(),
});

/** The token of a member's reader. */
export const encodeToken = (member: string, { parts, delivered }: Standing): string => {
  const cursors = Array.from(delivered, ([chat, { epoch, seq, at }]) => [chat, epoch, seq, at]);
  return Buffer.from(JSON.stringify([version, member, parts, cursors])).toString("base64url");
};

const isCursor = (value: unknown): value is [string, string, number, number] =>
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
 * A token may come from a browser, so it decides only where to begin; what a member may see is looked up. A token for
 * another number of shards begins again from the positions.
 *
 * @throws {TypeError} it is no text.
 * @throws {ChatTokenError} it is not the token of a reader of this member.
 */
export const decodeToken = (member: string, token: string | undefined, shards: number): Standing => {
  if (token === undefined) return nowhere(shards);
  if (typeof token !== "string") throw new TypeError("Expected `token` to be a string");
  const refusal = new ChatTokenError(member);
  const content = parsed(token);
  if (!Array.isArray(content) || content[0] !== version || content[1] !== member) throw refusal;
  const [, , parts, cursors] = content as unknown[];
  if (!Array.isArray(parts) || !parts.every(isPart)) throw refusal;
  if (!Array.isArray(cursors) || !cursors.every(isCursor)) throw refusal;
  if (parts.length !== shards) return nowhere(shards);
  return {
    parts,
    delivered: new Map(cursors.map(([chat, epoch, seq, at]) => [chat, { epoch, seq, at }])),
  };
};
