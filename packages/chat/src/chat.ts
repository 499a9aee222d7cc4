import { KitClosedError, type KitError, type RedisLike } from "@kit/core";
import {
  asKitError,
  type CloseOptions,
  Deadline,
  integerOption,
  inTime,
  newToken,
  type ObjectLife,
  resolve,
  traced,
  TypedEmitter,
  watchEviction,
  withCaller,
} from "@kit/core/toolkit";
import { encodeBody } from "./body.js";
import { ChatAckError, ChatMemberError, ChatTooLargeError, ChatUnknownError } from "./errors.js";
import { Listener } from "./listener.js";
import { Mailbox } from "./mailbox.js";
import {
  type ChatOptions,
  chatRules,
  type CreateOptions,
  type Creation,
  creation,
  type FetchOptions,
  fetchRules,
  type HistoryOptions,
  resolveHistoryOptions,
  joinRules,
  type JoinOptions,
  type ListenOptions,
  listenRules,
  mailboxCreation,
  type MailboxOptions,
  type MembersOptions,
  membersRules,
  type SendOptions,
  sendRules,
  type TailOptions,
  tailRules,
  type WaitOptions,
  waitRules,
} from "./options.js";
import { type Accepted, Outbox, type Outgoing, refusalOf } from "./outbox.js";
import { type Message, messageOf, type News, Reader } from "./reader.js";
import * as scripts from "./scripts/index.js";
import { ChatStore } from "./store.js";
import { decodeToken, encodeToken, nowhere } from "./token.js";
import { Watcher } from "./watcher.js";

/** The most members or chats in one script. */
const pageSize = 500;
/** Events of a chat object. */
export interface ChatEvents {
  /** A member left too much unacknowledged, and was removed. */
  readonly removed: readonly [event: { readonly chat: string; readonly member: string }];
  /**
   * A position moved, and `to` was told of it: a member that listens with `positions` on this object. Own acknowledgements are
   * among them.
   */
  readonly position: readonly [event: scripts.MovedPosition & { readonly to: string }];
  /**
   * The server may drop keys when its memory is full: any, and with them chats, under an `allkeys-…` policy; under a `volatile-…` one
   * those with an expiry, which are the notes on client ids and, in a chat with `retain.ageMs`, its messages. Emitted once for each
   * policy; asked in the background, only while there is a listener, and again after a lost connection. Nothing is emitted where INFO is
   * forbidden.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background operation failed; it is retried if that makes sense. While an outage or a refusal lasts, listeners and waits emit one
   * error, and one with the code `KIT_RECOVERED` when it is over.
   */
  readonly error: readonly [error: KitError];
}

/** A page for a reader, and its place afterwards. */
export interface Page<Body = unknown> extends News<Body> {
  /** For the next `fetch` or `wait` of this reader. */
  readonly token: string;
}

/** A page of history, in order of sequence. */
export interface HistoryPage<Body = unknown> {
  readonly messages: readonly Message<Body>[];
  /** Whether there are older messages that may be seen. */
  readonly hasOlder: boolean;
  readonly hasNewer: boolean;
}

/** A page of members. */
export interface MembersPage {
  readonly members: readonly { readonly member: string; readonly position: number; readonly unread: number }[];
  /** For the next page; undefined after the last page. */
  readonly cursor: string | undefined;
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

/** An acknowledgement: of a message, or of a sequence. With `at` the message's identity is checked. */
export interface Ack {
  readonly chat: string;
  readonly seq: number;
  readonly at?: number | undefined;
}

/**
 * Chats of many members on one Redis: each member pulls the new messages of all its chats, and acknowledges those that it
 * has handled. Made by {@link createChat}.
 *
 * Messages of a chat are numbered 1, 2, 3 … by the server. A member's position in a chat, the highest number it has
 * acknowledged, only moves forward. Of the messages after its position only those are lost that retention drops, and these
 * are reported as a gap.
 *
 * It follows the pull messaging of "Redis in Action" (J. L. Carlson, 2013, section 6.5).
 */
export class Chat<Body = unknown> extends TypedEmitter<ChatEvents> implements AsyncDisposable {
  readonly #store: ChatStore;
  /** Its counted calls are sends and acknowledgements: `close()` waits for no others. */
  readonly #life: ObjectLife;
  readonly #watcher: Watcher;
  readonly #outbox: Outbox;
  readonly #background = new Set<Promise<void>>();

  /** Only this package calls it. */
  constructor(redis: RedisLike, options: ChatOptions) {
    super();
    const settings = resolve("options", options, chatRules);
    this.#store = new ChatStore(redis, settings);
    this.#life = this.#store.life;
    this.#store.onUse = watchEviction(
      this.#store.context,
      () => this.hasListeners("evictable"),
      (policy) => this.emit("evictable", { policy }),
    );
    this.#watcher = new Watcher(this.#store, (error) => this.emit("error", error));
    this.#outbox = new Outbox(this.#store, (chat, member, position) => this.#removeLaggard(chat, member, position));
  }

  /**
   * Makes a chat, unless there is one of that name: then nothing changes, and `created` is false.
   *
   * The first 500 members are created together with the chat; more join in steps of 500 before the call resolves.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   * @throws {KitError} `KIT_NAME`: a name is empty, over 512 bytes, or not well-formed Unicode; nothing was made.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} the call can be repeated safely.
   *
   * @example
   * await chat.create("order:1", { members: ["ann", "bob"], retain: { count: 1_000, readByAll: true } });
   */
  async create(chat: string, options: CreateOptions = {}): Promise<{ readonly created: boolean }> {
    return await this.#create(chat, creation(options, this.#store.settings));
  }

  #create(chat: string, { members, config, receipts }: Creation): Promise<{ readonly created: boolean }> {
    return traced(
      "chat.create",
      () => ({ chat }),
      async () => {
        const { keys } = await this.#open();
        const shard = keys.shardOf(chat);
        const memberKeys = members.map((name) => keys.member(shard, name));
        const epoch = newToken().replaceAll("-", "").slice(0, 16);
        const first = {
          keys: { ...keys.chat(chat), members: memberKeys.slice(0, pageSize) },
          args: { chat, epoch, config, receipts: receipts ? "1" : "", names: members.slice(0, pageSize) },
        };
        const options = { ...this.#store.call(), op: epoch };
        const make = () => scripts.create.run(this.#store.context, first.keys, first.args, options);
        let code = await make();
        // A deletion of a chat of that name was begun and not finished.
        for (; code === unfinished; code = await make()) await this.#forget(chat, []);
        if (code !== 0) return { created: false };
        for (let from = pageSize; from < members.length; from += pageSize)
          await this.#join(chat, members.slice(from, from + pageSize), "none");
        return { created: true };
      },
    );
  }

  /**
   * Appends a message, and resolves with the sequence and time that the server gave it.
   *
   * Concurrent sends to one chat travel together, and are numbered in the order of the calls. A send that is repeated with
   * its `clientId`, by you or by us after a lost reply, gives the first message. A member's own message is never unread for it;
   * if it has acknowledged everything before, its position moves, too.
   *
   * @throws {ChatUnknownError | ChatMemberError | ChatTooLargeError | ChatFullError} nothing was sent.
   * @throws {KitError} `KIT_CHAT_BUSY`: `maxPending` sends of this process wait already.
   * @throws {KitUnavailableError} no server in time; nothing was sent.
   * @throws {KitUnknownOutcomeError} the reply is lost. `op` is the client id: sending again with it settles the outcome.
   * @throws {TypeError | RangeError} an option or the body is not what it should be.
   *
   * @example
   * const { seq } = await chat.send("order:1", { from: "ann", body: "Is it still available?", clientId: "m1" });
   */
  async send(chat: string, options: SendOptions<Body>): Promise<Accepted> {
    const settings = resolve("options", options, sendRules);
    const { from, body, clientId = newToken(), durable: durability, signal } = settings;
    const item: Outgoing = { chat, from, clientId, body: encodeBody(body) };
    const { maxBodyBytes } = this.#store.settings;
    if (item.body.bytes > maxBodyBytes) throw new ChatTooLargeError(chat, item.body.bytes, maxBodyBytes);
    const sending = async (): Promise<Accepted> => {
      const { keys } = await this.#open(signal);
      keys.member(keys.shardOf(chat), from);
      return await (durability ? this.#outbox.sendDurably(item, durability, signal) : this.#outbox.send(item, signal));
    };
    return await this.#life.call("chat.send", () => ({ chat, from }), sending);
  }

  /**
   * Reads the new messages in all chats of a member. Writes nothing: without a token, unacknowledged messages are returned
   * again.
   *
   * With a token, only messages are new that this reader has not received; each device keeps its own token, and all share
   * the member's position. If the token is too old or data was lost, some messages are returned again, and none is missed.
   * Many messages come in pages: fetch again while `more`. Chats with new messages share a page evenly.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   * @throws {ChatTokenError} the token is damaged or of another member: begin anew, without a token.
   * @throws {KitUnavailableError} no server in time.
   * @throws `signal.reason` if `signal` aborts first.
   *
   * @example
   * const { chats, token } = await chat.fetch("bob");
   * for (const { messages } of chats) for (const message of messages) await show(message);
   */
  async fetch(member: string, options: FetchOptions = {}): Promise<Page<Body>> {
    const { token, autoAck, positions, ...budget } = resolve("options", options, fetchRules);
    return await traced(
      "chat.fetch",
      () => ({ member }),
      async () => {
        const reader = await this.#reader(member, token, false, positions, budget.signal);
        const page = await reader.next(budget);
        // A gap without a message behind it is passed, too; it would come again each time.
        const last = page.chats.flatMap(({ chat, messages, gap }): Ack[] => {
          const end = messages.at(-1) ?? (gap && { chat, seq: gap.to });
          return end ? [end] : [];
        });
        // A chat that the member has left meanwhile does not hold back the others.
        if (autoAck && last.length > 0) await this.#ack(member, last, (error) => !isRefusal(error));
        return { ...page, token: encodeToken(member, reader.standing) };
      },
    );
  }

  /**
   * Waits until there is something to fetch for a member, without polling; false if there was nothing within `waitMs`.
   *
   * All waits of this object share one dedicated connection, on a Cluster one for each shard. After a lost connection the
   * result may be true without news; fetch then gives an empty page.
   *
   * @throws {ChatTokenError} as `fetch`.
   * @throws {KitUnavailableError} no server answered the first read in time. Later outages are waited out.
   * @throws {KitClosedError} this object was closed.
   * @throws `signal.reason` if `signal` aborts first.
   *
   * @example
   * if (await chat.wait("bob", { token, waitMs: 30_000 })) page = await chat.fetch("bob", { token });
   */
  async wait(member: string, options: WaitOptions = {}): Promise<boolean> {
    const { token, waitMs, positions, signal } = resolve("options", options, waitRules);
    const deadline = waitMs === undefined ? undefined : Deadline.in(waitMs);
    return await traced(
      "chat.wait",
      () => ({ member }),
      async () => {
        const reader = await this.#reader(member, token, false, positions, signal);
        // The last page was not complete.
        return reader.standing.delivered.size > 0 || (await this.#waitFor(reader, deadline, signal));
      },
    );
  }

  /**
   * Delivers the messages of all chats of a member as they arrive. Acknowledges those that are done, in order; see {@link
   * Listener}.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * await chat.listen("bob", { signal }).each((message) => show(message), { concurrency: 8 });
   */
  listen(member: string, options: ListenOptions = {}): Listener<Body> {
    const resolved = resolve("options", options, listenRules);
    const facts = (): object => ({ member });
    let reader: Reader<Body> | undefined;
    const readerOf = async (): Promise<Reader<Body>> => {
      this.#life.assertOpen();
      return (reader ??= await this.#reader(member, resolved.token, true, resolved.positions, resolved.signal));
    };
    const host = {
      next: (signal?: AbortSignal) =>
        traced("chat.fetch", facts, async () => {
          const news = await (await readerOf()).next({ ...resolved, signal });
          for (const moved of news.positions) this.emit("position", { ...moved, to: member });
          return news;
        }),
      wait: (signal?: AbortSignal) =>
        traced("chat.wait", facts, async () => await this.#waitFor(await readerOf(), undefined, signal)),
      ack: (message: Message) => this.#life.call("chat.ack", facts, () => this.#outbox.ack({ ...message, member })),
      outage: this.#watcher.outage,
    };
    return new Listener<Body>(host, resolved);
  }

  /**
   * Gives the mailbox of one recipient: any number of workers take its messages under leases. The options apply when the
   * mailbox is made, by the first call in any process that needs it.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * const invoices = chat.mailbox("invoices", { retain: { count: 1_000 } });
   * await invoices.send({ from: "shop", body: "order 17" });
   * const [message] = await invoices.take({ waitMs: 60_000 });
   * if (message) await message.ack();
   */
  mailbox(name: string, options: MailboxOptions = {}): Mailbox<Body> {
    const made = mailboxCreation(name, options, this.#store.settings);
    const host = {
      store: this.#store,
      watcher: this.#watcher,
      open: (signal?: AbortSignal) => this.#open(signal),
      create: () => this.#create(name, made),
    };
    return new Mailbox<Body>(name, host, (message) => this.send(name, message));
  }

  /**
   * Moves a member's position up to the given messages, never back. Messages before them are acknowledged, too.
   *
   * Pass messages as they were fetched (or `{ chat, seq, at }`): with `at` the acknowledgement of a message that a failover
   * lost is refused, instead of acknowledging another one in its place. Concurrent acknowledgements travel together.
   *
   * @throws {ChatUnknownError | ChatMemberError | ChatAckError} the first one that failed; the others are done.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} acknowledging can be repeated safely.
   *
   * @example
   * await chat.ack("bob", messages);
   */
  ack(member: string, messages: Ack | readonly Ack[]): Promise<void> {
    return this.#ack(member, messages, () => true);
  }

  /** Rejects with the first failure that counts. */
  #ack(member: string, messages: Ack | readonly Ack[], counts: (error: Error) => boolean): Promise<void> {
    const acking = async (): Promise<void> => {
      const failed = (await this.#ackEach(member, messages)).find(counts);
      if (failed) throw failed;
    };
    return this.#life.call("chat.ack", () => ({ member }), acking);
  }

  /** Resolves with the failures. */
  async #ackEach(member: string, messages: Ack | readonly Ack[]): Promise<Error[]> {
    const { keys } = await this.#open();
    keys.member(0, member);
    const highest = new Map<string, { chat: string; seq: number; at: number | undefined }>();
    for (const { chat, seq, at } of [messages].flat()) {
      keys.shardOf(chat);
      integerOption("seq", seq, 0);
      if (at !== undefined) integerOption("at", at, 0);
      if (seq > (highest.get(chat)?.seq ?? -1)) highest.set(chat, { chat, seq, at });
    }
    const outcomes = await Promise.allSettled(
      Array.from(highest.values(), (one) => this.#outbox.ack({ ...one, member })),
    );
    return outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as Error] : []));
  }

  /**
   * The number of messages of others in each chat that a member has not acknowledged. Without `chats`: for all chats that have
   * any. Of `chats`, those that do not exist, or of which the user is no member, are missing from the answer.
   *
   * @example
   * const counts = await chat.unread("bob");
   * const badge = [...counts.values()].reduce((sum, count) => sum + count, 0);
   */
  unread(member: string, chats?: readonly string[]): Promise<Map<string, number>> {
    return traced(
      "chat.unread",
      () => ({ member }),
      async () => {
        const { keys } = await this.#open();
        keys.member(0, member);
        const counts = new Map<string, number>();
        for (const [chat, count] of await this.#countUnread(member, chats ?? (await this.#chatsOf(member)))) {
          if (count > 0 || (chats && count === 0)) counts.set(chat, count);
        }
        return counts;
      },
    );
  }

  /**
   * A page of a chat's messages: the newest, or those before, after or around a sequence, or from a time on. Concurrent
   * sends do not shift the pages.
   *
   * @throws {ChatUnknownError | ChatMemberError}
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * const { messages, hasOlder } = await chat.history("order:1", { before: 120, limit: 20 });
   */
  async history(chat: string, options: HistoryOptions = {}): Promise<HistoryPage<Body>> {
    const { user, ...args } = resolveHistoryOptions(options);
    return await traced(
      "chat.history",
      () => ({ chat }),
      async () => {
        const { keys } = await this.#open();
        const places = keys.chat(chat);
        // Without a user nothing is read from this key.
        const member = user === "" ? places.heads : keys.member(keys.shardOf(chat), user);
        const operands = { chat, user, ...args };
        const reply = await scripts.history.run(
          this.#store.context,
          { ...places, member },
          operands,
          this.#store.call(),
        );
        this.#assertDone(reply.code, chat, user);
        const messages = reply.messages.map((message) => messageOf<Body>(chat, message));
        // An empty page lies at the requested place, or at the end: everything up to there was read.
        const { head, floor } = reply;
        const anchor = args.mode === "before" ? args.anchor : head + 1;
        const first = messages[0]?.seq ?? Math.min(anchor, head + 1);
        const last = messages.at(-1)?.seq ?? first - 1;
        return { messages, hasOlder: first > floor + 1, hasNewer: last < head };
      },
    );
  }

  /**
   * Delivers the messages of one chat as they arrive, without membership or acknowledgement: first the newest `last` ones,
   * then each new one. Best effort after data loss: it does not notice that a chat was deleted, or that a failover lost
   * messages. Ends with `signal.reason` when the signal aborts; leaving the loop ends it, too.
   *
   * @throws {ChatUnknownError}
   * @throws {KitUnavailableError} no server in time, at any of its reads.
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * for await (const { from, body } of chat.tail("order:1", { signal })) console.log(from, body);
   */
  async *tail(chat: string, options: TailOptions = {}): AsyncGenerator<Message<Body>, void, undefined> {
    const { last, signal } = resolve("options", options, tailRules);
    try {
      await this.#open(signal);
      const { head } = await this.inspect(chat);
      for (let after = Math.max(0, head - last); ;) {
        const parts = await this.#watcher.standingFor(chat, signal);
        const { messages, hasNewer } = await this.history(chat, { after, limit: 1_000 });
        for (const message of messages) {
          after = message.seq;
          yield message;
          signal?.throwIfAborted();
        }
        if (!hasNewer) await this.#watcher.waitFor(chat, parts, undefined, signal);
      }
    } catch (error) {
      throw withCaller(error);
    }
  }

  /**
   * Makes a user a member, and resolves with its position: the first one, or the present one if it was already a member.
   *
   * @throws {ChatUnknownError}
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * await chat.join("order:1", "support", { history: "all" });
   */
  async join(chat: string, member: string, options: JoinOptions = {}): Promise<{ readonly position: number }> {
    const { history } = resolve("options", options, joinRules);
    return await traced(
      "chat.join",
      () => ({ chat }),
      async () => {
        const [position = 0] = await this.#join(chat, [member], history);
        return { position };
      },
    );
  }

  /**
   * Ends a membership; does nothing if there is none. With `readByAll`, messages that only this member had not read are
   * dropped. The chat stays even when its last member leaves; `delete()` ends it.
   */
  leave(chat: string, member: string): Promise<void> {
    return traced(
      "chat.leave",
      () => ({ chat, member }),
      async () => {
        this.#life.assertOpen();
        await this.#leave(chat, member, "");
      },
    );
  }

  /**
   * A page of a chat's members with their positions, in no order. A member that stays throughout is listed at least once; it
   * may be listed twice while others join and leave.
   *
   * @throws {ChatUnknownError}
   *
   * @example
   * const { members, cursor } = await chat.members("order:1", { limit: 100 });
   */
  async members(chat: string, options: MembersOptions = {}): Promise<MembersPage> {
    const args = { chat, ...resolve("options", options, membersRules) };
    return await traced(
      "chat.members",
      () => ({ chat }),
      async () => {
        const { keys } = await this.#open();
        const reply = await scripts.members.run(this.#store.context, keys.chat(chat), args, this.#store.call());
        this.#assertDone(reply.code, chat);
        const { members: found, cursor } = reply;
        return { members: found, cursor: cursor === "0" ? undefined : cursor };
      },
    );
  }

  /**
   * Deletes a chat with all its keys; does nothing if there is none.
   *
   * The first step deletes it for everybody. A process that dies before the last step leaves the names of some members;
   * deleting again removes them.
   */
  delete(chat: string): Promise<void> {
    return traced(
      "chat.delete",
      () => ({ chat }),
      async () => {
        await this.#open();
        await this.#remove(chat);
      },
    );
  }

  /**
   * Reads the state of a chat without changing it.
   *
   * @throws {ChatUnknownError}
   */
  inspect(chat: string): Promise<ChatInspection> {
    return traced(
      "chat.inspect",
      () => ({ chat }),
      async () => {
        const { keys } = await this.#open();
        const seen = await scripts.inspect.run(this.#store.context, keys.chat(chat), { chat }, this.#store.call());
        this.#assertDone(seen.code, chat);
        const { createdAt, head, floor, headAt, oldestAt, members, slowest } = seen;
        return {
          createdAt,
          head,
          messages: head - floor,
          newestAt: head === 0 ? undefined : headAt,
          oldestAt: oldestAt || undefined,
          members,
          slowest: slowest < 0 ? undefined : slowest,
        };
      },
    );
  }

  /**
   * Ends this object: further calls are refused, waits and listeners end with KitClosedError, and `close` waits for sends
   * and acknowledgements under way, at most `timeoutMs`. A `done()` after it acknowledges nothing, and emits `error`; the
   * message comes again. The client is not touched. Idempotent: the options of the first
   * call hold.
   *
   * @throws {TypeError | RangeError} an option is not what it should be; nothing else.
   */
  close(options: CloseOptions = {}): Promise<void> {
    return this.#life.close(options, (deadline) => this.#close(deadline));
  }

  /** As `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(deadline: Deadline): Promise<void> {
    this.#watcher.close();
    await this.#life.untilIdle(deadline);
    await this.#outbox.close(deadline);
    await inTime(Promise.allSettled(this.#background), { deadline });
  }

  async #open(signal?: AbortSignal): ReturnType<ChatStore["open"]> {
    this.#life.assertOpen();
    return await this.#store.open(signal);
  }

  /** Runs a task that only `close()` waits for. */
  #inBackground(task: () => Promise<void>): void {
    const running = task()
      .catch((error: unknown) => this.emit("error", asKitError(error, "Work in the background")))
      .finally(() => this.#background.delete(running));
    this.#background.add(running);
  }

  #assertDone(code: number, chat: string, member = ""): void {
    const refused = refusalOf(code, chat, member);
    if (refused) throw refused;
  }

  /** Its position is read again: it may have caught up since. */
  #removeLaggard(chat: string, member: string, position: string): void {
    this.#inBackground(async () => {
      if (await this.#leave(chat, member, position)) this.emit("removed", { chat, member });
    });
  }

  // Reading --------------------------------------------------------------------------------------------------------

  async #reader(
    member: string,
    token: string | undefined,
    keepsCursors: boolean,
    positions: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Reader<Body>> {
    const { keys } = await this.#open(signal);
    keys.member(0, member);
    return new Reader<Body>(
      this.#store,
      member,
      decodeToken(member, token, keys.shards),
      keepsCursors,
      positions ? this.#watcher.hearing : undefined,
    );
  }

  async #waitFor(
    reader: Reader<Body>,
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const isNews = await this.#watcher.wait(reader, deadline, signal);
    this.#life.assertOpen();
    if (this.#store.context.executor.isEnded) throw new KitClosedError("The client");
    return isNews;
  }

  /** The names of all chats of a member. */
  async #chatsOf(member: string): Promise<string[]> {
    const { keys } = await this.#store.open();
    const shards = await new Reader<Body>(this.#store, member, nowhere(keys.shards), false).look(1, true, undefined);
    return shards.flatMap(({ names }) => names);
  }

  async #countUnread(member: string, chats: readonly string[]): Promise<(readonly [string, number])[]> {
    const { keys } = await this.#store.open();
    const byShard = new Map<number, string[]>();
    for (const chat of new Set(chats)) {
      const shard = keys.shardOf(chat);
      const known = byShard.get(shard);
      if (known) known.push(chat);
      else byShard.set(shard, [chat]);
    }
    const pages = Array.from(byShard, ([shard, all]) =>
      scripts.grouped(all, pageSize).map((some) => ({ shard, some })),
    ).flat();
    const counted = await Promise.all(
      pages.map(async ({ shard, some }) => {
        const places = some.map((chat) => keys.chat(chat));
        const own = { member: keys.member(shard, member), heads: keys.heads(shard), keys: places };
        const counts = await scripts.unread.run(
          this.#store.context,
          own,
          { user: member, chats: some },
          this.#store.call(),
        );
        return some.map((chat, index) => [chat, counts[index] ?? 0] as const);
      }),
    );
    return counted.flat();
  }

  // Members --------------------------------------------------------------------------------------------------------

  async #join(chat: string, names: readonly string[], history: string): Promise<readonly number[]> {
    const { keys } = await this.#open();
    const members = names.map((name) => keys.member(keys.shardOf(chat), name));
    const places = { ...keys.chat(chat), members };
    const args = { chat, history, names };
    const [code = 0, ...positions] = await scripts.join.run(this.#store.context, places, args, this.#store.call());
    this.#assertDone(code, chat);
    return positions;
  }

  /** `upTo`: only if the position is not beyond it. Resolves with whether the member was removed. */
  async #leave(chat: string, user: string, upTo: string): Promise<boolean> {
    const { keys } = await this.#store.open();
    const places = { ...keys.chat(chat), member: keys.member(keys.shardOf(chat), user) };
    const code = await scripts.leave.run(this.#store.context, places, { chat, user, upTo }, this.#store.call());
    return code === 1;
  }

  async #remove(chat: string): Promise<void> {
    const { keys } = await this.#store.open();
    const names = await scripts.remove.run(this.#store.context, keys.chat(chat), { chat }, this.#store.call());
    if (names.length > 0) await this.#forget(chat, names);
  }

  /** Removes these and all other members of a deleted chat; none if the chat was created again. */
  async #forget(chat: string, some: readonly string[]): Promise<void> {
    const { keys } = await this.#store.open();
    const shard = keys.shardOf(chat);
    let names = some;
    do {
      const members = names.map((name) => keys.member(shard, name));
      const places = { ...keys.chat(chat), members };
      names = await scripts.forget.run(this.#store.context, places, { chat, names }, this.#store.call());
    } while (names.length > 0);
  }
}

const isRefusal = (error: Error): boolean =>
  [ChatUnknownError, ChatMemberError, ChatAckError].some((refused) => error instanceof refused);

/** `create.lua`: members of a deleted chat of that name are left. */
const unfinished = 2;

/**
 * Makes a chat object for any number of chats and members. All chat objects of the same prefix, in any process, see the same
 * chats.
 *
 * `redis` is any ioredis `Redis` or `Cluster`, or what core's `connect()` gives. It is borrowed: never closed, never
 * blocked. The first wait opens one more connection, on a Cluster one for each shard; `close()` ends them. `Body` is the
 * type of what you send; nothing checks it at run time.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
 *
 * @example
 * const chat = createChat<string>(redis);
 * await chat.create("order:1", { members: ["ann", "bob"] });
 * await chat.send("order:1", { from: "ann", body: "Is it still available?" });
 */
export const createChat = <Body = unknown>(redis: RedisLike, options: ChatOptions = {}): Chat<Body> =>
  new Chat<Body>(redis, options);
