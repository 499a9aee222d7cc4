import { KitClosedError } from "@kit/core";
import { Deadline, traced } from "@kit/core/toolkit";
import { decodeToken, encodeToken, startPosition } from "./read/position.js";
import { type News, Reader } from "./read/reader.js";
import { grouped, type MovedPosition } from "./scripts/index.js";
import type { Ack, Acknowledger } from "./send/acknowledger.js";
import type { Watcher } from "./wait/watcher.js";
import { ChatAckError, ChatMemberError, ChatUnknownError } from "./errors.js";
import type { ListenerHost } from "./listener.js";
import type { ResolvedFetchOptions, ResolvedListenOptions, ResolvedWaitOptions } from "./options.js";
import type { ChatStore } from "./store.js";

/** The most chats in one script. */
const pageSize = 500;

/** A page for a reader, and its position afterwards. */
export interface FetchPage<Body = unknown> extends News<Body> {
  /** For the next `fetch` or `wait` of this reader. */
  readonly token: string;
}

/** Reads for the members of a chat object: pages, waits for them, listeners and counts. */
export class Readers<Body> {
  readonly #store: ChatStore;
  readonly #watcher: Watcher;
  readonly #acknowledger: Acknowledger;

  constructor(store: ChatStore, watcher: Watcher, acknowledger: Acknowledger) {
    this.#store = store;
    this.#watcher = watcher;
    this.#acknowledger = acknowledger;
  }

  async fetch(member: string, options: ResolvedFetchOptions): Promise<FetchPage<Body>> {
    const reader = await this.#readerOf(member, options, false);
    const page = await reader.next(options);
    // A gap without a later message is acknowledged as well: otherwise it would come again each time.
    const last = page.chats.flatMap(({ chat, messages, gap }): Ack[] => {
      const end = messages.at(-1) ?? (gap && { chat, seq: gap.to });
      return end ? [end] : [];
    });
    // A chat that the member has left meanwhile does not hold back the others.
    if (options.autoAck && last.length > 0) await this.#acknowledger.upTo(member, last, (error) => !isRefusal(error));
    return { ...page, token: encodeToken(member, reader.position) };
  }

  async wait(member: string, options: ResolvedWaitOptions): Promise<boolean> {
    const { waitMs, signal } = options;
    const deadline = waitMs === undefined ? undefined : Deadline.in(waitMs);
    const reader = await this.#readerOf(member, options, false);
    // Chats that the last page delivered in part have more.
    return reader.position.delivered.size > 0 || (await this.#waitFor(reader, deadline, signal));
  }

  /** The calls of a listener. `onMoved` receives each position that moved. */
  hostOf(member: string, options: ResolvedListenOptions, onMoved: (moved: MovedPosition) => void): ListenerHost<Body> {
    const facts = (): object => ({ member });
    let reader: Reader<Body> | undefined;
    const readerOf = async (): Promise<Reader<Body>> => {
      this.#store.life.assertOpen();
      return (reader ??= await this.#readerOf(member, options, true));
    };
    return {
      next: (signal) =>
        traced("chat.fetch", facts, async () => {
          const news = await (await readerOf()).next({ ...options, signal });
          for (const moved of news.positions) onMoved(moved);
          return news;
        }),
      wait: (signal) =>
        traced("chat.wait", facts, async () => await this.#waitFor(await readerOf(), undefined, signal)),
      ack: (message) => this.#store.life.call("chat.ack", facts, () => this.#acknowledger.ack(message, member)),
      outage: this.#store.outage,
    };
  }

  async unread(member: string, chats: readonly string[] | undefined): Promise<Map<string, number>> {
    const { keys } = await this.#store.enter();
    keys.member(0, member);
    const counts = new Map<string, number>();
    for (const [chat, count] of await this.#countUnread(member, chats ?? (await this.#chatsOf(member)))) {
      if (count > 0 || (chats && count === 0)) counts.set(chat, count);
    }
    return counts;
  }

  async #readerOf(
    member: string,
    { token, positions, signal }: Pick<ResolvedFetchOptions, "token" | "positions" | "signal">,
    keepsDelivered: boolean,
  ): Promise<Reader<Body>> {
    const { keys } = await this.#store.enter(signal);
    keys.member(0, member);
    const position = decodeToken(member, token, keys.shards);
    const subscribe = positions ? () => this.#watcher.subscription.renew() : undefined;
    return new Reader<Body>(this.#store, member, position, keepsDelivered, subscribe);
  }

  async #waitFor(
    reader: Reader<Body>,
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const isNews = await this.#watcher.wait(reader, deadline, signal);
    this.#store.life.assertOpen();
    if (this.#store.context.executor.isEnded) throw new KitClosedError("The client");
    return isNews;
  }

  /** The names of all chats of a member. */
  async #chatsOf(member: string): Promise<string[]> {
    const { keys } = await this.#store.open();
    const shards = await new Reader<Body>(this.#store, member, startPosition(keys.shards), false).look(
      1,
      true,
      undefined,
    );
    const lost = shards.find(({ error }) => error);
    if (lost?.error) throw lost.error;
    return shards.flatMap(({ names }) => names);
  }

  async #countUnread(member: string, chats: readonly string[]): Promise<(readonly [string, number])[]> {
    const commands = await this.#store.open();
    const byShard = new Map<number, string[]>();
    for (const chat of new Set(chats)) {
      const shard = commands.keys.shardOf(chat);
      const known = byShard.get(shard);
      if (known) known.push(chat);
      else byShard.set(shard, [chat]);
    }
    const counted = await Promise.all(
      [...byShard].flatMap(([shard, all]) =>
        grouped(all, pageSize).map(async (some) => {
          const counts = await commands.unread(shard, member, some);
          return some.map((chat, index) => [chat, counts[index] ?? 0] as const);
        }),
      ),
    );
    return counted.flat();
  }
}

const isRefusal = (error: Error): boolean =>
  [ChatUnknownError, ChatMemberError, ChatAckError].some((refused) => error instanceof refused);
