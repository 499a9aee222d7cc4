import type { CreateOptions } from "../src/index.js";

interface Membership {
  position: number;
  /** Nothing up to it can be seen. */
  readonly from: number;
  /** The numbers of its own messages. */
  readonly own: Set<number>;
  /** Later ones have higher numbers. */
  readonly joined: number;
}

let lives = 0;
let joins = 0;

/** A chat, as simply as possible. */
export class ModelChat {
  readonly life: number = ++lives;
  /** By sequence, from 1. */
  readonly messages: { readonly body: string; readonly from: string }[] = [];
  readonly members: Map<string, Membership> = new Map();
  floor = 0;
  readonly #ids = new Map<string, number>();
  readonly #options: CreateOptions;

  constructor(options: CreateOptions) {
    this.#options = options;
    for (const member of options.members ?? [])
      this.members.set(member, { position: 0, from: 0, own: new Set(), joined: ++joins });
  }

  get head(): number {
    return this.messages.length;
  }

  #bytesAfter(sequence: number): number {
    return this.messages.slice(sequence).reduce((sum, { body }) => sum + body.length, 0);
  }

  #drop(): void {
    const { count = Infinity, bytes = Infinity, readByAll = false } = this.#options.retain ?? {};
    if (readByAll && this.members.size > 0)
      this.#dropUpTo(Math.min(...Array.from(this.members.values(), (one) => one.position)));
    if (this.#options.whenFull === "refuse") return;
    this.#dropUpTo(this.head - count);
    while (this.#bytesAfter(this.floor) > bytes) this.floor++;
  }

  #dropUpTo(sequence: number): void {
    this.floor = Math.max(this.floor, Math.min(sequence, this.head));
  }

  send(from: string, body: string, clientId: string): { seq: number; duplicate: boolean } | string {
    if (this.#options.whenFull === "refuse") this.#drop();
    const own = this.members.get(from);
    const { count = Infinity, bytes = Infinity } = this.#options.retain ?? {};
    const known = this.#ids.get(`${from} ${clientId}`);
    if (known !== undefined) return { seq: known, duplicate: true };
    if (!own && this.#options.senders !== "anyone") return "KIT_CHAT_NOT_MEMBER";
    if (body.length > (this.#options.maxBodyBytes ?? Infinity)) return "KIT_CHAT_TOO_LARGE";
    const isFull = this.head - this.floor >= count || this.#bytesAfter(this.floor) + body.length > bytes;
    if (this.#options.whenFull === "refuse" && isFull) return "KIT_CHAT_FULL";
    const hasReadAll = own?.position === this.head;
    this.messages.push({ body, from });
    own?.own.add(this.head);
    if (own && hasReadAll) own.position = this.head;
    this.#ids.set(`${from} ${clientId}`, this.head);
    this.#drop();
    return { seq: this.head, duplicate: false };
  }

  ack(member: string, sequence: number): string {
    const own = this.members.get(member);
    if (!own) return "KIT_CHAT_NOT_MEMBER";
    if (sequence > this.head) return "KIT_CHAT_ACK_BEYOND";
    if (sequence > own.position) {
      own.position = sequence;
      while (own.own.has(own.position + 1)) own.position++;
      this.#drop();
    }
    return "";
  }

  join(member: string, history: "none" | "all" | number): number {
    const known = this.members.get(member);
    if (known) return known.position;
    const wanted = history === "none" ? this.head : history === "all" ? 0 : this.head - history;
    const start = Math.max(wanted, this.floor);
    // Of what it sent before, the newest 256 messages of the chat are looked through.
    const earliest = this.head - 256;
    const sent = this.messages.flatMap(({ from }, index) => (from === member && index >= earliest ? [index + 1] : []));
    this.members.set(member, { position: start, from: start, own: new Set(sent), joined: ++joins });
    return start;
  }

  leave(member: string): void {
    this.members.delete(member);
    this.#drop();
  }

  unread(member: string): number {
    const { position = 0, own } = this.members.get(member) ?? {};
    const base = Math.max(position, this.floor);
    return this.messages.filter((_, index) => index >= base && !own?.has(index + 1)).length;
  }
}

/** The expectations of a reader: by the messages it was given, and the events since it was last given all. */
export class ModelReader {
  /** Of chats of which it has received something since. */
  readonly cursors: Map<string, { readonly life: number; readonly seq: number }> = new Map();
  /** Chats that the member has left since, of those that it knows of. */
  readonly left: Set<string> = new Set();
  readonly reported: Set<string> = new Set();
  /** Chats that were deleted since, of those of which the member was a member. */
  readonly deleted: Set<string> = new Set();
  /** The heads then; undefined: it was never given all. */
  #heads: Map<string, number> | undefined;
  #joined = 0;

  /** The message after which it continues in a chat, and whether that is another chat than before. */
  startIn(name: string, chat: ModelChat, member: string): { start: number; reset: string | undefined } {
    const own = chat.members.get(member);
    if (!own) return { start: chat.head, reset: undefined };
    const cursor = this.cursors.get(name);
    if (cursor && cursor.life !== chat.life) return { start: own.from, reset: "epoch" };
    if (cursor) return { start: Math.max(cursor.seq, own.from), reset: undefined };
    if (!this.#heads) return { start: own.position, reset: undefined };
    if (own.joined > this.#joined) return { start: own.from, reset: this.deleted.has(name) ? "epoch" : undefined };
    return { start: Math.max(this.#heads.get(name) ?? 0, own.from), reset: undefined };
  }

  leaves(name: string): void {
    if (this.#heads || this.cursors.has(name)) this.left.add(name);
  }

  /** The chat is deleted, of which the member is a member. */
  loses(name: string): void {
    this.leaves(name);
    if (this.#heads) this.deleted.add(name);
  }

  isComplete(chats: ReadonlyMap<string, ModelChat>): void {
    this.cursors.clear();
    this.left.clear();
    this.reported.clear();
    this.deleted.clear();
    this.#heads = new Map(Array.from(chats, ([name, { head }]) => [name, head]));
    this.#joined = joins;
  }
}

/** A mailbox: who has which messages, and how often they were delivered. */
export class ModelMailbox {
  /** Of each message that is not acknowledged, by sequence. */
  readonly open: Map<number, { worker: number | undefined; deliveries: number; hasEnded: boolean }> = new Map();
  /** The worker that acknowledged a message. */
  readonly #acked = new Map<number, number>();
  head = 0;

  send(): void {
    this.open.set(++this.head, { worker: undefined, deliveries: 0, hasEnded: false });
  }

  /** The leases of `worker` are told apart from those of any other by its number. */
  take(worker: number, limit: number): { seq: number; deliveries: number }[] {
    const all = [...this.open];
    const again = all.filter(([, one]) => one.worker !== undefined && one.hasEnded);
    const fresh = all.filter(([, one]) => one.deliveries === 0);
    return [...again, ...fresh].slice(0, limit).map(([seq, one]) => {
      Object.assign(one, { worker, deliveries: one.deliveries + 1, hasEnded: false });
      return { seq, deliveries: one.deliveries };
    });
  }

  settle(how: "ack" | "extend" | "release", seq: number, worker: number): boolean {
    const one = this.open.get(seq);
    if (!one) return how === "ack" && this.#acked.get(seq) === worker;
    if (one.worker !== worker) return false;
    if (how === "ack") {
      this.open.delete(seq);
      this.#acked.set(seq, worker);
    } else one.hasEnded = how === "release";
    return true;
  }
}
