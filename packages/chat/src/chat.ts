import type { KitError, RedisLike } from "@kit/core";
import {
  asKitError,
  type CloseOptions,
  type Deadline,
  type ObjectLife,
  resolve,
  traced,
  TypedEmitter,
  watchEviction,
  withCaller,
} from "@kit/core/toolkit";
import { type ChatInspection, type HistoryPage, inspectChat, readHistory } from "./read/history.js";
import type { Message } from "./read/message.js";
import type { MovedPosition } from "./scripts/index.js";
import { type Ack, Acknowledger } from "./send/acknowledger.js";
import { type Accepted, MessageSender } from "./send/sender.js";
import { Watcher } from "./wait/watcher.js";
import { Listener } from "./listener.js";
import { Mailbox } from "./mailbox.js";
import { Members, type MembersPage } from "./members.js";
import {
  type ChatOptions,
  chatRules,
  type CreateOptions,
  type Creation,
  creation,
  type FetchOptions,
  fetchRules,
  type HistoryOptions,
  joinRules,
  type JoinOptions,
  type ListenOptions,
  listenRules,
  mailboxCreation,
  type MailboxOptions,
  type MembersOptions,
  membersRules,
  resolveHistoryOptions,
  type SendOptions,
  sendRules,
  type TailOptions,
  tailRules,
  type WaitOptions,
  waitRules,
} from "./options.js";
import { type FetchPage, Readers } from "./readers.js";
import { ChatStore } from "./store.js";

/** Events of a chat object. */
export interface ChatEvents {
  /** A member left too much unacknowledged, and was removed. */
  readonly removed: readonly [event: { readonly chat: string; readonly member: string }];
  /**
   * A position moved. `to` is a member that listens with `positions` on this object. Moves by the member's own acknowledgements are
   * included.
   */
  readonly position: readonly [event: MovedPosition & { readonly to: string }];
  /**
   * The server can evict keys when its memory is full. An `allkeys-…` policy can evict any key, and with it a chat. A `volatile-…`
   * policy can evict keys with an expiry: the records of client ids and, in a chat with `retain.ageMs`, its messages. Emitted once
   * for each policy. If the event has a listener, kit reads the policy in the background, and again after a lost connection. Nothing
   * is emitted if INFO is forbidden.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background operation failed. kit retries it if a retry can succeed. Listeners and waits emit one error when an outage or a
   * refusal starts, and one with the code `KIT_RECOVERED` when it is over.
   */
  readonly error: readonly [error: KitError];
}

/**
 * Chats of many members on one Redis. Each member pulls the new messages of all its chats, and acknowledges the messages it has
 * handled. Create it with {@link createChat}.
 *
 * The server numbers the messages of a chat 1, 2, 3 … A member's position in a chat is the highest number that it acknowledged; it
 * only moves forward. A member can miss a message after its position only if retention dropped the message, or the server lost it. A
 * `gap` then reports the missed messages.
 *
 * Every call rejects an invalid argument with a TypeError or RangeError. A name that is empty, over 512 bytes or not well-formed
 * Unicode rejects with `KIT_NAME`. A call rejects with KitUnavailableError when no server answers in time, and with KitClosedError
 * after `close()`; such a call has changed nothing.
 *
 * The design follows the pull messaging of "Redis in Action" (J. L. Carlson, 2013, section 6.5).
 */
export class Chat<Body = unknown> extends TypedEmitter<ChatEvents> implements AsyncDisposable {
  readonly #store: ChatStore;
  /** `close()` waits for what it counts: sends, acknowledgements, and removals of members that lag. */
  readonly #life: ObjectLife;
  readonly #members: Members;
  readonly #sender: MessageSender;
  readonly #acknowledger: Acknowledger;
  readonly #watcher: Watcher;
  readonly #readers: Readers<Body>;

  /** For this package only: use {@link createChat}. */
  constructor(redis: RedisLike, options: ChatOptions) {
    super();
    const settings = resolve("options", options, chatRules);
    this.#store = new ChatStore(redis, settings, (error) => this.emit("error", error));
    this.#life = this.#store.life;
    this.#store.onUse = watchEviction(
      this.#store.context,
      () => this.hasListeners("evictable"),
      (policy) => this.emit("evictable", { policy }),
    );
    this.#members = new Members(this.#store);
    this.#sender = new MessageSender(this.#store, (chat, member, position) => this.#remove(chat, member, position));
    this.#acknowledger = new Acknowledger(this.#store);
    this.#watcher = new Watcher(this.#store);
    this.#readers = new Readers<Body>(this.#store, this.#watcher, this.#acknowledger);
  }

  /**
   * Creates a chat. If a chat with that name exists, nothing changes and `created` is false.
   *
   * The first 500 members are created together with the chat. Further members join in steps of 500 before the call resolves.
   *
   * @throws {KitUnavailableError | KitUnknownOutcomeError} you can safely call again.
   *
   * @example
   * await chat.create("order:1", { members: ["ann", "bob"], retain: { count: 1_000, readByAll: true } });
   */
  async create(chat: string, options: CreateOptions = {}): Promise<{ readonly created: boolean }> {
    return await this.#create(chat, creation(options, this.#store.settings));
  }

  #create(chat: string, made: Creation): Promise<{ readonly created: boolean }> {
    return traced("chat.create", inChat(chat), () => this.#members.create(chat, made));
  }

  /**
   * Appends a message, and resolves with the sequence and time that the server assigned.
   *
   * Concurrent sends to one chat share batches, and are numbered in the order of the calls. A repeated send with the same `clientId`
   * returns the first message, whether you repeat it or kit does after a lost reply. A member's own message is never unread for that
   * member. If the member has acknowledged all earlier messages, its position moves past the new message.
   *
   * @throws {ChatUnknownError | ChatMemberError | ChatTooLargeError | ChatFullError} nothing was sent.
   * @throws {KitError} `KIT_CHAT_BUSY`: `maxPending` sends to the chat already wait in this process.
   * @throws {KitUnknownOutcomeError} the reply was lost. `op` is the client id: to settle the outcome, send again with it as
   *   `clientId`. Without the `clientId`, the call may send a second message.
   *
   * @example
   * const { seq } = await chat.send("order:1", { from: "ann", body: "Is it still available?", clientId: "m1" });
   */
  async send(chat: string, options: SendOptions<Body>): Promise<Accepted> {
    return await this.#sender.send(chat, resolve("options", options, sendRules));
  }

  /**
   * Reads the new messages in all chats of a member. It writes nothing: without a token, unacknowledged messages are returned again.
   *
   * With a token, it returns only messages that this reader has not received. Each device keeps its own token; all devices share the
   * member's position. If the token is too old or data was lost, some messages are returned again, and none is missed. Many messages
   * come in pages: fetch again while `more` is true. Chats with new messages share a page evenly.
   *
   * @throws {ChatTokenError} the token is damaged or belongs to another member: fetch without a token.
   * @throws `signal.reason` if `signal` aborts first.
   *
   * @example
   * const { chats, token } = await chat.fetch("bob");
   * for (const { messages } of chats) for (const message of messages) await show(message);
   */
  async fetch(member: string, options: FetchOptions = {}): Promise<FetchPage<Body>> {
    const settings = resolve("options", options, fetchRules);
    return await traced("chat.fetch", ofMember(member), () => this.#readers.fetch(member, settings));
  }

  /**
   * Waits until there is something to fetch for a member, without polling. Resolves with false after `waitMs`.
   *
   * All waits of this object share one dedicated connection; on a Cluster, one for each shard. After a lost connection the result can
   * be true without new messages: the next page is then empty.
   *
   * @throws {ChatTokenError} as `fetch`.
   * @throws {KitUnavailableError} no server answered the first read in time. `wait` continues through later outages.
   * @throws `signal.reason` if `signal` aborts first.
   *
   * @example
   * if (await chat.wait("bob", { token, waitMs: 30_000 })) page = await chat.fetch("bob", { token });
   */
  async wait(member: string, options: WaitOptions = {}): Promise<boolean> {
    const settings = resolve("options", options, waitRules);
    return await traced("chat.wait", ofMember(member), () => this.#readers.wait(member, settings));
  }

  /**
   * Delivers the messages of all chats of a member as they arrive. It acknowledges, in order, the messages that are done. See
   * {@link Listener}.
   *
   * @example
   * await chat.listen("bob", { signal }).each((message) => show(message), { concurrency: 8 });
   */
  listen(member: string, options: ListenOptions = {}): Listener<Body> {
    const settings = resolve("options", options, listenRules);
    const onMoved = (moved: MovedPosition): unknown => this.emit("position", { ...moved, to: member });
    return new Listener<Body>(this.#readers.hostOf(member, settings, onMoved), settings);
  }

  /**
   * Returns the mailbox of one recipient. Any number of workers take its messages under leases. The options apply only
   * when the mailbox is created, by the first call in any process that needs it.
   *
   * @example
   * const invoices = chat.mailbox("invoices", { retain: { count: 1_000 } });
   * await invoices.send({ from: "shop", body: "order 17" });
   * const [message] = await invoices.take({ waitMs: 60_000 });
   * if (message) await message.ack();
   */
  mailbox(name: string, options: MailboxOptions = {}): Mailbox<Body> {
    const made = mailboxCreation(name, options, this.#store.settings);
    return new Mailbox<Body>(name, {
      store: this.#store,
      watcher: this.#watcher,
      create: () => this.#create(name, made),
      send: (message) => this.send(name, message),
    });
  }

  /**
   * Moves a member's position up to the given messages, never back. This acknowledges all earlier messages as well.
   *
   * Pass messages as you fetched them (or `{ chat, seq, at }`). If a failover lost a message, its `at` makes the call fail, so that
   * another message with the same sequence is not acknowledged. Concurrent acknowledgements share batches.
   *
   * @throws {ChatUnknownError | ChatMemberError | ChatAckError} the first acknowledgement that failed; the others are done.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} you can safely acknowledge again.
   *
   * @example
   * await chat.ack("bob", messages);
   */
  ack(member: string, messages: Ack | readonly Ack[]): Promise<void> {
    return this.#acknowledger.upTo(member, messages);
  }

  /**
   * Counts the messages of others that a member has not acknowledged, by chat. Without `chats`, the result has all chats with unread
   * messages. With `chats`, it has only the given chats of which the user is a member.
   *
   * @example
   * const counts = await chat.unread("bob");
   * const badge = [...counts.values()].reduce((sum, count) => sum + count, 0);
   */
  unread(member: string, chats?: readonly string[]): Promise<Map<string, number>> {
    return traced("chat.unread", ofMember(member), () => this.#readers.unread(member, chats));
  }

  /**
   * Reads a page of a chat's messages: the newest messages, messages before, after or around a sequence, or messages from a given
   * time. Concurrent sends do not shift the pages.
   *
   * @throws {ChatUnknownError | ChatMemberError}
   *
   * @example
   * const { messages, hasOlder } = await chat.history("order:1", { before: 120, limit: 20 });
   */
  async history(chat: string, options: HistoryOptions = {}): Promise<HistoryPage<Body>> {
    const settings = resolveHistoryOptions(options);
    return await traced("chat.history", inChat(chat), () => readHistory<Body>(this.#store, chat, settings));
  }

  /**
   * Delivers the messages of one chat as they arrive, without membership or acknowledgement: first the newest `last` messages, then
   * each new one. It may not report a deleted chat, or messages that a failover lost. Leave the loop to end it. It throws
   * `signal.reason` when the signal aborts.
   *
   * @throws {ChatUnknownError}
   * @throws {KitUnavailableError} no server answered one of its reads in time.
   *
   * @example
   * for await (const { from, body } of chat.tail("order:1", { signal })) console.log(from, body);
   */
  async *tail(chat: string, options: TailOptions = {}): AsyncGenerator<Message<Body>, void, undefined> {
    const { last, signal } = resolve("options", options, tailRules);
    try {
      await this.#store.enter(signal);
      const { head } = await this.inspect(chat);
      for (let after = Math.max(0, head - last); ;) {
        const positions = await this.#watcher.positionsFor(chat, signal);
        const { messages, hasNewer } = await this.history(chat, { after, limit: 1_000 });
        for (const message of messages) {
          after = message.seq;
          yield message;
          signal?.throwIfAborted();
        }
        if (!hasNewer) await this.#watcher.waitFor(chat, positions, undefined, signal);
      }
    } catch (error) {
      throw withCaller(error);
    }
  }

  /**
   * Makes a user a member, and resolves with the member's position: the initial position, or the current position of an existing
   * member.
   *
   * @throws {ChatUnknownError}
   *
   * @example
   * await chat.join("order:1", "support", { history: "all" });
   */
  async join(chat: string, member: string, options: JoinOptions = {}): Promise<{ readonly position: number }> {
    const { history } = resolve("options", options, joinRules);
    return await traced("chat.join", inChat(chat), async () => {
      const [position = 0] = await this.#members.join(chat, [member], history);
      return { position };
    });
  }

  /**
   * Ends a membership. Does nothing if there is none. With `readByAll`, messages that only this member had not read are dropped. The
   * chat stays even when its last member leaves; call `delete()` to remove it.
   */
  leave(chat: string, member: string): Promise<void> {
    const facts = (): object => ({ chat, member });
    return traced("chat.leave", facts, () => this.#members.leave(chat, member));
  }

  /**
   * Reads a page of a chat's members with their positions, in no order. A member that stays throughout is listed at least once, and
   * may be listed twice while others join and leave.
   *
   * @throws {ChatUnknownError}
   *
   * @example
   * const { members, cursor } = await chat.members("order:1", { limit: 100 });
   */
  async members(chat: string, options: MembersOptions = {}): Promise<MembersPage> {
    const settings = resolve("options", options, membersRules);
    return await traced("chat.members", inChat(chat), () => this.#members.list(chat, settings));
  }

  /**
   * Deletes a chat with all its keys. Does nothing if there is none. The first step deletes it for all members. If the process dies
   * before the last step, the names of some members stay: delete again to remove them.
   */
  delete(chat: string): Promise<void> {
    return traced("chat.delete", inChat(chat), () => this.#members.delete(chat));
  }

  /**
   * Reads the state of a chat without changing it.
   *
   * @throws {ChatUnknownError}
   */
  inspect(chat: string): Promise<ChatInspection> {
    return traced("chat.inspect", inChat(chat), () => inspectChat(this.#store, chat));
  }

  /**
   * Closes this object. Further calls reject, waits and listeners end with KitClosedError, and `close` waits up to `timeoutMs` for
   * sends and acknowledgements in flight. A later `done()` acknowledges nothing and emits `error`: the message is delivered again.
   * Your client stays open. Idempotent: the options of the first call apply.
   *
   * @throws {TypeError | RangeError} an option is invalid; no other error.
   */
  close(options: CloseOptions = {}): Promise<void> {
    return this.#life.close(options, (deadline) => this.#close(deadline));
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(deadline: Deadline): Promise<void> {
    this.#life.cancel();
    this.#watcher.close();
    await this.#life.untilIdle(deadline);
    await Promise.all([this.#sender.close(deadline), this.#acknowledger.close(deadline)]);
    // Replies to the last sends may have named members that lag.
    await this.#life.untilIdle(deadline);
  }

  /** In the background. */
  #remove(chat: string, member: string, position: string): void {
    const removing = async (): Promise<void> => {
      if (await this.#members.removeLagging(chat, member, position)) this.emit("removed", { chat, member });
    };
    void this.#life
      .track(removing())
      .catch((error: unknown) => this.emit("error", asKitError(error, "Removing a member that lags")));
  }
}

/** The facts of a trace. */
const inChat = (chat: string) => (): object => ({ chat });
const ofMember = (member: string) => (): object => ({ member });

/**
 * Creates a chat object for any number of chats and members. All chat objects with the same prefix share the same chats, in any
 * process.
 *
 * Pass `redis` as a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes or blocks it. The first
 * wait opens one more connection; on a Cluster, one for each shard. `close()` ends them. `Body` is the type of what you send; nothing
 * checks it at run time.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 *
 * @example
 * const chat = createChat<string>(redis);
 * await chat.create("order:1", { members: ["ann", "bob"] });
 * await chat.send("order:1", { from: "ann", body: "Is it still available?" });
 */
export const createChat = <Body = unknown>(redis: RedisLike, options: ChatOptions = {}): Chat<Body> =>
  new Chat<Body>(redis, options);
