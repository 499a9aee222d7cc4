import type { Batcher } from "@kit/core/batching";
import { type Deadline, integerOption, serverError } from "@kit/core/toolkit";
import { type AckArgs, refusalOf } from "../commands.js";
import { ChatAckError } from "../errors.js";
import { refusal } from "../scripts/index.js";
import type { ChatStore } from "../store.js";
import { batcherFor } from "./batching.js";

/** An acknowledgement of a message or a sequence. With `at`, kit checks that the message is still the same. */
export interface Ack {
  readonly chat: string;
  readonly seq: number;
  readonly at?: number | undefined;
}

/**
 * Sends the acknowledgements of a chat object in batches. Acknowledgements for one group of shards that arrive while a call is in
 * flight share the next call.
 */
export class Acknowledger {
  readonly #store: ChatStore;
  /** By the number of the group. */
  readonly #batchers = new Map<number, Batcher<AckArgs, undefined>>();

  constructor(store: ChatStore) {
    this.#store = store;
  }

  /** A call of the user. Acknowledges the last message of each chat, and rejects with the first failure that counts. */
  upTo(member: string, messages: Ack | readonly Ack[], counts: (error: Error) => boolean = () => true): Promise<void> {
    const acking = async (): Promise<void> => {
      const failed = (await this.#ackEach(member, messages)).find(counts);
      if (failed) throw failed;
    };
    return this.#store.life.call("chat.ack", () => ({ member }), acking);
  }

  /** One acknowledgement, in a batch with others of the same shards. */
  async ack({ chat, seq, at }: Ack, user: string): Promise<void> {
    const { keys, groups } = await this.#store.open();
    const shard = keys.shardOf(chat);
    const group = groups.findIndex((shards) => shards.includes(shard));
    let batcher = this.#batchers.get(group);
    if (!batcher) this.#batchers.set(group, (batcher = this.#newBatcher()));
    await batcher.add({ chat, user, sequence: seq, at: at ?? "" });
  }

  /** Accepts no more acknowledgements, and waits for the calls under way. */
  async close(deadline: Deadline): Promise<void> {
    await Promise.all(Array.from(this.#batchers.values(), (batcher) => batcher.close(deadline)));
  }

  /** Resolves with the failures. */
  async #ackEach(member: string, messages: Ack | readonly Ack[]): Promise<Error[]> {
    const { keys } = await this.#store.enter();
    keys.member(0, member);
    const highest = new Map<string, Ack>();
    for (const { chat, seq, at } of [messages].flat()) {
      keys.shardOf(chat);
      integerOption("seq", seq, 0);
      if (at !== undefined) integerOption("at", at, 0);
      if (seq > (highest.get(chat)?.seq ?? -1)) highest.set(chat, { chat, seq, at });
    }
    const outcomes = await Promise.allSettled(Array.from(highest.values(), (one) => this.ack(one, member)));
    return outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as Error] : []));
  }

  #newBatcher(): Batcher<AckArgs, undefined> {
    return batcherFor<AckArgs, undefined>(this.#store, "chat.ack", {
      sizeOf: () => 0,
      send: async (commands, acks, deadlineMs) => {
        const replies = await commands.ack(acks, deadlineMs);
        return acks.map((ack, index) => errorOf(ack, replies[index] ?? 0));
      },
    });
  }
}

const errorOf = ({ chat, user, sequence }: AckArgs, code: number | Error): Error | undefined => {
  if (code instanceof Error) return serverError(code, `chat.ack of ${JSON.stringify(chat)}`);
  if (code === refusal.beyond) return new ChatAckError("KIT_CHAT_ACK_BEYOND", chat, user, sequence);
  if (code === refusal.forked) return new ChatAckError("KIT_CHAT_FORKED", chat, user, sequence);
  return refusalOf(code, chat, user);
};
