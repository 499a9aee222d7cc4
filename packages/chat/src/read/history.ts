import { assertDone } from "../commands.js";
import type { ResolvedHistoryOptions } from "../options.js";
import type { ChatStore } from "../store.js";
import { type Message, messageOf } from "./message.js";

/** A page of history, in order of sequence. */
export interface HistoryPage<Body = unknown> {
  readonly messages: readonly Message<Body>[];
  /** Whether there are older messages that may be seen. */
  readonly hasOlder: boolean;
  readonly hasNewer: boolean;
}

/** The state of a chat at one instant. */
export interface ChatInspection {
  readonly createdAt: number;
  /** The sequence of the newest message; 0 if none was sent. */
  readonly head: number;
  /** How many messages are kept. */
  readonly messages: number;
  readonly newestAt: number | undefined;
  readonly oldestAt: number | undefined;
  readonly members: number;
  /** The lowest position; undefined if there is no member. */
  readonly slowest: number | undefined;
}

export const readHistory = async <Body>(
  store: ChatStore,
  chat: string,
  options: ResolvedHistoryOptions,
): Promise<HistoryPage<Body>> => {
  const commands = await store.enter();
  const { code, head, floor, messages: stored } = await commands.history({ chat, ...options });
  assertDone(code, chat, options.user);
  const messages = stored.map((message) => messageOf<Body>(chat, message));
  // An empty page is at the requested place, or at the end: everything before it was read.
  const anchor = options.mode === "before" ? options.anchor : head + 1;
  const first = messages[0]?.seq ?? Math.min(anchor, head + 1);
  const last = messages.at(-1)?.seq ?? first - 1;
  return { messages, hasOlder: first > floor + 1, hasNewer: last < head };
};

export const inspectChat = async (store: ChatStore, chat: string): Promise<ChatInspection> => {
  const commands = await store.enter();
  const { code, createdAt, head, floor, headAt, oldestAt, members, slowest } = await commands.inspect(chat);
  assertDone(code, chat);
  return {
    createdAt,
    head,
    messages: head - floor,
    newestAt: head === 0 ? undefined : headAt,
    oldestAt: oldestAt || undefined,
    members,
    slowest: slowest < 0 ? undefined : slowest,
  };
};
