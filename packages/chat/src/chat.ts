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
   * A position moved. `to` is a member that listens with `positions` on this object. Its own acknowledgements are among them.
   */
  readonly position: readonly [event: MovedPosition & { readonly to: string }];
  /**
   * The server may drop keys when its memory is full. An `allkeys-…` policy drops any, and with them chats. A `volatile-…` one drops
   * those with an expiry: the notes on client ids and, in a chat with `retain.ageMs`, its messages. Emitted once for each policy. The
   * policy is read in the background, only while there is a listener, and again after a lost connection. Where INFO is forbidden,
   * nothing is emitted.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background operation failed; it is retried if that makes sense. While an outage or a refusal lasts, listeners and waits emit one
   * error, and one with the code `KIT_RECOVERED` when it is over.
   */
  readonly error: readonly [error: KitError];
}

/**
 * Chats of many members on one Redis: each member pulls the new messages of all its chats, and acknowledges those that it
 * has handled. Made by {@link createChat}.
 *
 * Messages of a chat are numbered 1, 2, 3 … by the server. A member's position in a chat, the highest number that it
 * acknowledged, only moves forward. A message after the position can be missed only if retention dropped it, or the server lost it: it
 * is then reported in a gap.
 *
 * Every call refuses a wrong argument by a TypeError or RangeError, and a name that is empty, over 512 bytes or not well-formed
 * Unicode by `KIT_NAME`. It rejects with KitUnavailableError when no server answers in time, and with KitClosedError after
 * `close()`; such a command has changed nothing.
 *
 * It follows the pull messaging of "Redis in Action" (J. L. Carlson, 2013, section 6.5).
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

  /** Only this package calls it. */
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
   * Makes a chat, unless there is one of that name: then nothing changes, and `created` is false.
   *
   * The first 500 members are created together with the chat; more join in steps of 500 before the call resolves.
   *
   * @throws {KitUnavailableError | KitUnknownOutcomeError} the call can be repeated safely.
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
   * Appends a message, and resolves with the sequence and time that the server gave it.
   *
   * Concurrent sends to one chat share batches, and are numbered in the order of the calls. A send that is repeated with its
   * `clientId`, by you or by this package after a lost reply, returns the first message. A member's own message is never unread for
   * it; if it has acknowledged everything before, its position moves, too.
   *
   * @throws {ChatUnknownError | ChatMemberError | ChatTooLargeError | ChatFullError} nothing was sent.
   * @throws {KitError} `KIT_CHAT_BUSY`: `maxPending` sends to the chat already wait in this process.
   * @throws {KitUnknownOutcomeError} the reply is lost. `op` is the client id: sending again with it settles the outcome. Without a
   *   `clientId` of yours the same call would send a second message.
   *
   * @example
   * const { seq } = await chat.send("order:1", { from: "ann", body: "Is it still available?", clientId: "m1" });
   */
  async send(chat: string, options: SendOptions<Body>): Promise<Accepted> {
    return await this.#sender.send(chat, resolve("options", options, sendRules));
  }

  /**
   * Reads the new messages in all chats of a member. Writes nothing: without a token, unacknowledged messages are returned
   * again.
   *
   * With a token, messages are new that this reader has not received. Each device keeps its own token, and all share the
   * member's position. If the token is too old or data was lost, some messages are returned again, and none is missed.
   * Many messages come in pages: fetch again while `more`. Chats with new messages share a page evenly.
   *
   * @throws {ChatTokenError} the token is damaged or of another member: fetch without a token.
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
   * All waits of this object share one dedicated connection, on a Cluster one for each shard. After a lost connection the
   * result may be true without news: the next page is then empty.
   *
   * @throws {ChatTokenError} as `fetch`.
   * @throws {KitUnavailableError} no server answered the first read in time. Later outages are waited out.
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
   * Delivers the messages of all chats of a member as they arrive. Acknowledges those that are done, in order: see {@link
   * Listener}.
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
   * Gives the mailbox of one recipient: any number of workers take its messages under leases. The options apply when the
   * mailbox is made, by the first call in any process that needs it.
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
   * Moves a member's position up to the given messages, never back. Messages before them are acknowledged, too.
   *
   * Pass messages as they were fetched (or `{ chat, seq, at }`): with `at` the acknowledgement of a message that a failover
   * lost is refused, instead of acknowledging another one in its place. Concurrent acknowledgements share batches.
   *
   * @throws {ChatUnknownError | ChatMemberError | ChatAckError} the first one that failed; the others are done.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} acknowledging can be repeated safely.
   *
   * @example
   * await chat.ack("bob", messages);
   */
  ack(member: string, messages: Ack | readonly Ack[]): Promise<void> {
    return this.#acknowledger.upTo(member, messages);
  }

  /**
   * Counts the messages of others that a member has not acknowledged, by chat. Without `chats`, the result has all chats with such
   * messages. With `chats`, it has those of them that the user is a member of.
   *
   * @example
   * const counts = await chat.unread("bob");
   * const badge = [...counts.values()].reduce((sum, count) => sum + count, 0);
   */
  unread(member: string, chats?: readonly string[]): Promise<Map<string, number>> {
    return traced("chat.unread", ofMember(member), () => this.#readers.unread(member, chats));
  }

  /**
   * Reads a page of a chat's messages: the newest, or those before, after or around a sequence, or from a time on. Concurrent sends
   * do not shift the pages.
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
   * Delivers the messages of one chat as they arrive, without membership or acknowledgement: first the newest `last` ones,
   * then each new one. Best effort after data loss: a chat that was deleted, and messages that a failover lost, are not
   * reported. Ends with `signal.reason` when the signal aborts; leaving the loop ends it, too.
   *
   * @throws {ChatUnknownError}
   * @throws {KitUnavailableError} no server in time, at any of its reads.
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
   * Makes a user a member, and resolves with its position: the first one, or the present one if it was already a member.
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
   * Ends a membership; does nothing if there is none. With `readByAll`, messages that only this member had not read are
   * dropped. The chat stays even when its last member leaves; `delete()` ends it.
   */
  leave(chat: string, member: string): Promise<void> {
    const facts = (): object => ({ chat, member });
    return traced("chat.leave", facts, () => this.#members.leave(chat, member));
  }

  /**
   * Reads a page of a chat's members with their positions, in no order. A member that stays throughout is listed at least once; it
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
   * Deletes a chat with all its keys; does nothing if there is none. The first step deletes it for all members. A process that dies
   * before the last step leaves the names of some members: deleting again removes them.
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
   * Ends this object. Further calls are refused, waits and listeners end with KitClosedError, and `close` waits for sends and
   * acknowledgements under way, at most `timeoutMs`. A later `done()` acknowledges nothing, and emits `error`: the message comes
   * again. The client is not touched. Idempotent: the options of the first call hold.
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
 * Makes a chat object for any number of chats and members. All chat objects of the same prefix, in any process, see the same
 * chats.
 *
 * `redis` is a client of core's `connect()`, of ioredis, or of `fromNodeRedis()`. It is borrowed: never closed, never
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
