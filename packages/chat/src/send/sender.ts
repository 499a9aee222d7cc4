import { KitUnknownOutcomeError } from "@kit/core";
import type { Batcher } from "@kit/core/batching";
import type { Durability } from "@kit/core/durable";
import { type Deadline, newToken } from "@kit/core/toolkit";
import { refusalOf, type SendArgs } from "../commands.js";
import { ChatFullError, ChatTooLargeError } from "../errors.js";
import type { DurableOption, ResolvedSendOptions } from "../options.js";
import { type BatchReply, refusal, type SendReply } from "../scripts/index.js";
import type { ChatStore } from "../store.js";
import { batcherFor } from "./batching.js";
import { encodeBody, type StoredBody } from "./body.js";

/** An object may see millions of chats: beyond this many, chats without a send under way are forgotten. */
const mostIdle = 1_000;

/** A message on its way. */
interface Outgoing {
  readonly chat: string;
  readonly from: string;
  readonly clientId: string;
  readonly body: StoredBody;
}

/** The result of a send. */
export interface Accepted {
  readonly seq: number;
  readonly at: number;
  readonly duplicate: boolean;
  readonly durability: Durability | undefined;
}

/** The sends of one chat, and how many are under way. */
interface Sends {
  readonly batcher: Batcher<Outgoing, SendReply>;
  count: number;
}

/** Sends the messages of a chat object in batches: those to one chat that arrive while a call is under way share the next. */
export class MessageSender {
  readonly #store: ChatStore;
  /** Names the calls of this object, so that the script recognizes a repeated call that it refused before. */
  readonly #name = newToken();
  #calls = 0;
  readonly #onLagging: (chat: string, member: string, position: string) => void;
  readonly #sends = new Map<string, Sends>();

  /** `onLagging` receives members that lag too far. */
  constructor(store: ChatStore, onLagging: (chat: string, member: string, position: string) => void) {
    this.#store = store;
    this.#onLagging = onLagging;
  }

  /** A call of the user. */
  send(chat: string, { from, body, clientId: given, durable, signal }: ResolvedSendOptions): Promise<Accepted> {
    const clientId = given ?? newToken();
    const item: Outgoing = { chat, from, clientId, body: encodeBody(body) };
    const { settings, life } = this.#store;
    const { maxBodyBytes } = settings;
    if (item.body.bytes > maxBodyBytes) throw new ChatTooLargeError(chat, item.body.bytes, maxBodyBytes);
    const sending = async (): Promise<Accepted> => {
      const { keys } = await this.#store.enter(signal);
      keys.member(keys.shardOf(chat), from);
      try {
        return await (durable ? this.#sendDurably(item, durable, signal) : this.#sendTogether(item, signal));
      } catch (error) {
        throw withOp(error, clientId, given !== undefined);
      }
    };
    return life.call("chat.send", () => ({ chat, from }), sending);
  }

  /** Accepts no more messages, and waits for the calls under way. */
  async close(deadline: Deadline): Promise<void> {
    await Promise.all(Array.from(this.#sends.values(), ({ batcher }) => batcher.close(deadline)));
  }

  async #sendTogether(item: Outgoing, signal: AbortSignal | undefined): Promise<Accepted> {
    const { chat } = item;
    let sends = this.#sends.get(chat);
    if (!sends) this.#sends.set(chat, (sends = { batcher: this.#batcherOf(chat), count: 0 }));
    sends.count++;
    try {
      return accepted(item, await sends.batcher.add(item, signal), undefined);
    } finally {
      if (--sends.count === 0 && this.#sends.size > mostIdle) this.#sends.delete(chat);
    }
  }

  async #sendDurably(item: Outgoing, option: DurableOption, signal: AbortSignal | undefined): Promise<Accepted> {
    // Calls of one name must arrive in order, and this call has its own connection.
    const args = argsOf(item.chat, [item], `${newToken()} 1`);
    const commands = await this.#store.open();
    const { value, ...durability } = await commands.sendDurably(args, option, signal);
    const [reply] = this.#settle(item.chat, [item], value);
    return accepted(item, reply!, durability);
  }

  #batcherOf(chat: string): Batcher<Outgoing, SendReply> {
    return batcherFor<Outgoing, SendReply>(this.#store, "chat.send", {
      sizeOf: ({ body }) => body.bytes,
      send: async (commands, items, deadlineMs) => {
        const args = argsOf(chat, items, `${this.#name} ${String(++this.#calls)}`);
        return this.#settle(chat, items, await commands.send(args, deadlineMs));
      },
    });
  }

  #settle(chat: string, items: readonly Outgoing[], reply: BatchReply): SendReply[] {
    for (const { member, position } of reply.lagging) this.#onLagging(chat, member, position);
    return items.map((_, index) => reply.sent[index] ?? { code: reply.refused, seq: 0, at: 0 });
  }
}

const argsOf = (chat: string, items: readonly Outgoing[], call: string): SendArgs => ({
  chat,
  call,
  items: items.map(({ from, clientId, body }) => ({ from, clientId, kind: body.kind, body: body.stored })),
});

/** @throws the error for the refusal. */
const accepted = (
  { chat, from, body }: Outgoing,
  { code, seq, at }: SendReply,
  durability: Durability | undefined,
): Accepted => {
  const refused = refusalOf(code, chat, from);
  if (refused) throw refused;
  if (code === refusal.tooLarge) throw new ChatTooLargeError(chat, body.bytes, seq);
  if (code === refusal.full) throw new ChatFullError(chat);
  return { seq, at, duplicate: code === refusal.duplicate, durability };
};

/** The error of a whole batch, with the operation id that resolves it for one message. */
const withOp = (error: unknown, op: string, isGiven: boolean): unknown =>
  error instanceof KitUnknownOutcomeError && error.op === undefined
    ? new KitUnknownOutcomeError(error.message, op, error.cause, isGiven)
    : error;
