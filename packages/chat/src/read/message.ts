import type { StoredMessage } from "../scripts/index.js";
import { decodeBody } from "../send/body.js";

/** A message of a chat. */
export interface Message<Body = unknown> {
  readonly chat: string;
  /** The number of the message within the chat: 1, 2, 3 … */
  readonly seq: number;
  /** When the server stored it, in epoch milliseconds. Never earlier than the previous message of the chat. */
  readonly at: number;
  /** `<seq>-<at>`: identifies this message even if a failover gave another message the same number. */
  readonly id: string;
  readonly from: string;
  readonly body: Body;
}

/** Messages that a reader will not receive. */
export interface Gap {
  readonly from: number;
  readonly to: number;
  /** `retention`: dropped before they were read. `lost`: the server no longer has them. */
  readonly reason: "retention" | "lost";
}

export const messageOf = <Body>(chat: string, { id, from, kind, stored }: StoredMessage): Message<Body> => {
  const dash = id.indexOf("-");
  const [seq, at] = [Number(id.slice(0, dash)), Number(id.slice(dash + 1))];
  return { chat, seq, at, id, from, body: decodeBody(kind, stored) as Body };
};
