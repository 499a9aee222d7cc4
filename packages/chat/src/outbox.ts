import { KitError, KitUnknownOutcomeError } from "@kit/core";
import { Batcher, type BatcherOptions } from "@kit/core/batching";
import { durable, type Durability } from "@kit/core/durable";
import { addressOf, type Deadline, newToken, noAnswer, serverError } from "@kit/core/toolkit";
import type { StoredBody } from "./body.js";
import { ChatAckError, ChatFullError, ChatMemberError, ChatTooLargeError, ChatUnknownError } from "./errors.js";
import type { DurableOption } from "./options.js";
import * as scripts from "./scripts/index.js";
import { refusal } from "./scripts/index.js";
import type { ChatStore } from "./store.js";

/** The most messages, and bytes of them, in one call. */
const batchItems = 100;
const batchBytes = 1_048_576;

/** An object may see millions of chats: beyond this many, chats without a send under way are forgotten. */
const mostIdle = 1_000;

/** A message on its way. */
export interface Outgoing {
  readonly chat: string;
  readonly from: string;
  readonly clientId: string;
  readonly body: StoredBody;
}

/** How the server answered it. */
export interface Accepted {
  readonly seq: number;
  readonly at: number;
  readonly duplicate: boolean;
  readonly durability: Durability | undefined;
}

/** An acknowledgement on its way. */
export interface OutgoingAck {
  readonly chat: string;
  readonly member: string;
  readonly seq: number;
  readonly at: number | undefined;
}

/** The sends of one chat, and how many are under way. */
interface Sends {
  readonly batcher: Batcher<Outgoing, scripts.SendReply>;
  count: number;
}

const batching = (store: ChatStore, what: string): Omit<BatcherOptions<object, never>, "send" | "sizeOf"> => {
  const { deadlineMs, maxPending } = store.settings;
  const address = addressOf(store.context.client);
  return {
    deadlineMs,
    maxPending,
    maxItems: batchItems,
    maxBytes: batchBytes,
    delayMs: 0,
    owner: "The chat",
    late: (_item, wasSent) => {
      const lost = `${what} was sent to ${address}, but its reply is lost: it may or may not have happened`;
      return wasSent
        ? new KitUnknownOutcomeError(lost, undefined, undefined, true)
        : noAnswer(store.context.client, `${what} was not done`);
    },
    full: () =>
      new KitError("KIT_CHAT_BUSY", `${what} was not done: ${String(maxPending)} others wait already`, {
        retryable: true,
      }),
  };
};

/** The error for a refusal that concerns the chat or its member; undefined for other codes. */
export const refusalOf = (code: number, chat: string, member: string): KitError | undefined => {
  if (code === refusal.unknown) return new ChatUnknownError(chat);
  if (code === refusal.notMember) return new ChatMemberError(chat, member);
  return undefined;
};

/**
 * Sends all messages and acknowledgements of a chat object: those that arrive while a call is under way travel together in
 * the next.
 */
export class Outbox {
  readonly #store: ChatStore;
  /** Names the calls of this object, so that the server knows a repeat of one that it refused. */
  readonly #name = newToken();
  #calls = 0;
  readonly #onLaggard: (chat: string, member: string, position: string) => void;
  readonly #sends = new Map<string, Sends>();
  /** By group of shards. */
  readonly #acks = new Map<number, Batcher<OutgoingAck, undefined>>();

  /** `onLaggard` receives members that lag too far. */
  constructor(store: ChatStore, onLaggard: (chat: string, member: string, position: string) => void) {
    this.#store = store;
    this.#onLaggard = onLaggard;
  }

  /** Together with concurrent sends to the same chat. */
  async send(item: Outgoing, signal: AbortSignal | undefined): Promise<Accepted> {
    const { chat, clientId } = item;
    let sends = this.#sends.get(chat);
    if (!sends) this.#sends.set(chat, (sends = { batcher: this.#newSends(chat), count: 0 }));
    sends.count++;
    try {
      return accepted(item, await sends.batcher.add(item, signal), undefined);
    } catch (error) {
      throw withOp(error, clientId);
    } finally {
      if (--sends.count === 0 && this.#sends.size > mostIdle) this.#sends.delete(chat);
    }
  }

  /** On a dedicated connection that waits for copies. */
  async sendDurably(item: Outgoing, option: DurableOption, signal: AbortSignal | undefined): Promise<Accepted> {
    // Calls of one name arrive in order; this one has a connection of its own.
    const { keys, args } = await this.#operands(item.chat, [item], `${newToken()} 1`);
    try {
      const { value, ...durability } = await durable(
        this.#store.context,
        { ...option, signal, key: keys.meta },
        (scope) => scope.run(scripts.send, keys, args),
      );
      const [reply] = this.#settle(item.chat, [item], value);
      return accepted(item, reply!, durability);
    } catch (error) {
      throw withOp(error, item.clientId);
    }
  }

  /** Together with all others of the same shards. */
  async ack(item: OutgoingAck): Promise<void> {
    const { keys, groups } = await this.#store.open();
    const shard = keys.shardOf(item.chat);
    const group = groups.findIndex((shards) => shards.includes(shard));
    let batcher = this.#acks.get(group);
    if (!batcher) this.#acks.set(group, (batcher = this.#newAcks()));
    await batcher.add(item);
  }

  /** Accepts no more, and waits for the calls under way. */
  async close(deadline: Deadline): Promise<void> {
    const batchers = [...Array.from(this.#sends.values(), ({ batcher }) => batcher), ...this.#acks.values()];
    await Promise.all(batchers.map((batcher) => batcher.close(deadline)));
  }

  #newSends(chat: string): Batcher<Outgoing, scripts.SendReply> {
    return new Batcher<Outgoing, scripts.SendReply>({
      ...batching(this.#store, "chat.send"),
      sizeOf: ({ body }) => body.bytes,
      send: async (items, deadline) => {
        const { keys, args } = await this.#operands(chat, items, `${this.#name} ${String(++this.#calls)}`);
        const options = { deadlineMs: Math.max(1, deadline.remainingMs) };
        return this.#settle(chat, items, await scripts.send.run(this.#store.context, keys, args, options));
      },
    });
  }

  async #operands(chat: string, items: readonly Outgoing[], call: string) {
    const { keys } = await this.#store.open();
    const shard = keys.shardOf(chat);
    return {
      keys: { ...keys.chat(chat), members: items.map(({ from }) => keys.member(shard, from)) },
      args: {
        chat,
        call,
        items: items.map(({ from, clientId, body }) => ({ from, clientId, kind: body.kind, body: body.stored })),
      },
    };
  }

  #settle(chat: string, items: readonly Outgoing[], reply: scripts.BatchReply): scripts.SendReply[] {
    for (const { member, position } of reply.laggards) this.#onLaggard(chat, member, position);
    return items.map((_, index) => reply.sent[index] ?? { code: reply.refused, seq: 0, at: 0 });
  }

  #newAcks(): Batcher<OutgoingAck, undefined> {
    return new Batcher<OutgoingAck, undefined>({
      ...batching(this.#store, "chat.ack"),
      sizeOf: () => 0,
      send: async (items, deadline) => {
        const { keys } = await this.#store.open();
        const places = items.map(({ chat, member }) => ({
          ...keys.chat(chat),
          member: keys.member(keys.shardOf(chat), member),
        }));
        const acks = items.map(({ chat, member, seq, at = "" }) => ({ chat, user: member, sequence: seq, at }));
        const options = { deadlineMs: Math.max(1, deadline.remainingMs) };
        const replies = await scripts.ack.run(this.#store.context, { keys: places }, { acks }, options);
        return items.map((item, index) => ackRefusal(item, replies[index] ?? 0));
      },
    });
  }
}

/** @throws the error for the refusal. */
const accepted = (
  { chat, from, body }: Outgoing,
  { code, seq, at }: scripts.SendReply,
  durability: Durability | undefined,
): Accepted => {
  const refused = refusalOf(code, chat, from);
  if (refused) throw refused;
  if (code === refusal.tooLarge) throw new ChatTooLargeError(chat, body.bytes, seq);
  if (code === refusal.full) throw new ChatFullError(chat);
  return { seq, at, duplicate: code === refusal.duplicate, durability };
};

const ackRefusal = ({ chat, member, seq }: OutgoingAck, code: number | Error): Error | undefined => {
  if (code instanceof Error) return serverError(code, `chat.ack of ${JSON.stringify(chat)}`);
  if (code === refusal.beyond) return new ChatAckError("KIT_CHAT_ACK_BEYOND", chat, member, seq);
  if (code === refusal.forked) return new ChatAckError("KIT_CHAT_FORKED", chat, member, seq);
  return refusalOf(code, chat, member);
};

/** The error of a whole batch, with the operation id that resolves it for one message. */
const withOp = (error: unknown, op: string): unknown =>
  error instanceof KitUnknownOutcomeError && error.op === undefined
    ? new KitUnknownOutcomeError(error.message, op, error.cause, true)
    : error;
