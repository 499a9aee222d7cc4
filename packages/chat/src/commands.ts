import type { KitError, RunOptions } from "@kit/core";
import { durable, type DurableResult } from "@kit/core/durable";
import type { ClientContext } from "@kit/core/toolkit";
import { ChatMemberError, ChatUnknownError } from "./errors.js";
import { type ChatKeys, Keys, layoutKey } from "./keys.js";
import type { Creation, DurableOption, ResolvedHistoryOptions } from "./options.js";
import * as scripts from "./scripts/index.js";

/** The operands of a script that its caller packs. Names are text. */
type ArgsOf<Script extends { readonly run: (...operands: never) => unknown }> = Parameters<Script["run"]>[2];

type KeysOfMembers = ChatKeys & { readonly members: readonly string[] };

/** Messages of one chat. `call`: the name of the caller, a blank, and the number of its call. */
export interface SendArgs {
  readonly chat: string;
  readonly call: string;
  readonly items: readonly {
    readonly from: string;
    readonly clientId: string;
    readonly kind: string;
    readonly body: string | Buffer;
  }[];
}

/** One page of several chats. */
type ReadArgs = Omit<ArgsOf<typeof scripts.read>, "chats"> & { readonly chats: readonly ReadRow[] };
type ReadRow = ArgsOf<typeof scripts.read>["chats"][number] & { readonly name: string };

/** An acknowledgement; `at` empty: only the sequence counts. */
export interface AckArgs {
  readonly chat: string;
  readonly user: string;
  readonly sequence: number;
  readonly at: number | "";
}

/**
 * The scripts of one prefix's chats on one client: a method for each, which finds the keys and packs the operands. `ChatStore`
 * gives it to the other parts once the number of shards is known.
 */
export class ChatCommands {
  readonly keys: Keys;
  /** Groups of shards that one script may access: all of them on a single server, each one alone on a Cluster. */
  readonly groups: readonly (readonly number[])[];
  readonly #context: ClientContext;
  readonly #deadlineMs: number;

  constructor(context: ClientContext, deadlineMs: number, shards: number, isCluster: boolean) {
    const all = Array.from({ length: shards }, (_, shard) => shard);
    this.keys = new Keys(context.prefix, shards);
    this.groups = isCluster ? all.map((shard) => [shard]) : [all];
    this.#context = context;
    this.#deadlineMs = deadlineMs;
  }

  // Chats and members ------------------------------------------------------------------------------------------------

  /** `names`: members that are made with the chat. `isSure`: the number of shards was read since a reply that asked for it. */
  create(
    chat: string,
    { config, receipts }: Creation,
    epoch: string,
    isSure: boolean,
    names: readonly string[],
  ): Promise<number> {
    const { prefix } = this.#context;
    const { shards } = this.keys;
    const keys = {
      layout: layoutKey(prefix, String(this.keys.shardOf(chat))),
      ...this.#withMembers(chat, names),
    };
    const args = { chat, epoch, config, receipts: receipts ? "1" : "", shards, isSure: isSure ? "1" : "", names };
    return scripts.create.run(this.#context, keys, args, { ...this.#options(), op: epoch });
  }

  join(chat: string, names: readonly string[], history: string): Promise<number[]> {
    const keys = this.#withMembers(chat, names);
    return scripts.join.run(this.#context, keys, { chat, history, names }, this.#options());
  }

  leave(chat: string, user: string, upTo: string): Promise<number> {
    return scripts.leave.run(this.#context, this.#withMember(chat, user), { chat, user, upTo }, this.#options());
  }

  remove(chat: string): Promise<string[]> {
    return scripts.remove.run(this.#context, this.keys.chat(chat), { chat }, this.#options());
  }

  forget(chat: string, names: readonly string[]): Promise<string[]> {
    return scripts.forget.run(this.#context, this.#withMembers(chat, names), { chat, names }, this.#options());
  }

  members(args: { readonly chat: string } & ArgsOf<typeof scripts.members>): Promise<scripts.MembersReply> {
    return scripts.members.run(this.#context, this.keys.chat(args.chat), args, this.#options());
  }

  inspect(chat: string): Promise<scripts.InspectReply> {
    return scripts.inspect.run(this.#context, this.keys.chat(chat), { chat }, this.#options());
  }

  // Writing ----------------------------------------------------------------------------------------------------------

  send(args: SendArgs, deadlineMs: number): Promise<scripts.BatchReply> {
    return scripts.send.run(this.#context, this.#ofSenders(args), args, { deadlineMs });
  }

  /** On a dedicated connection that waits for replicas or disks. */
  sendDurably(
    args: SendArgs,
    option: DurableOption,
    signal: AbortSignal | undefined,
  ): Promise<DurableResult<scripts.BatchReply>> {
    const keys = this.#ofSenders(args);
    return durable(this.#context, { ...option, signal, key: keys.meta }, (scope) =>
      scope.run(scripts.send, keys, args),
    );
  }

  /** All of one group of shards. */
  ack(acks: readonly AckArgs[], deadlineMs: number): Promise<(number | Error)[]> {
    const keys = acks.map(({ chat, user }) => this.#withMember(chat, user));
    return scripts.ack.run(this.#context, { keys }, { acks }, { deadlineMs });
  }

  // Reading ----------------------------------------------------------------------------------------------------------

  /** `shards` are one group. */
  changes(
    shards: readonly number[],
    args: { readonly user: string } & ArgsOf<typeof scripts.changes>,
    signal: AbortSignal | undefined,
  ): Promise<(scripts.ShardChanges | undefined)[]> {
    const keys = shards.flatMap((shard) => [
      this.keys.activity(shard),
      this.keys.member(shard, args.user),
      this.keys.heads(shard),
    ]);
    return scripts.changes.run(this.#context, { keys }, args, this.#options(signal));
  }

  read(args: ReadArgs, signal: AbortSignal | undefined): Promise<(scripts.ReadReply | undefined)[]> {
    const keys = args.chats.map(({ name }) => this.keys.chat(name));
    return scripts.read.run(this.#context, { keys }, args, this.#options(signal));
  }

  history(args: { readonly chat: string } & ResolvedHistoryOptions): Promise<scripts.HistoryReply> {
    const { chat, user } = args;
    const keys = this.keys.chat(chat);
    // Without a user nothing is read from this key.
    const member = user === "" ? keys.heads : this.keys.member(this.keys.shardOf(chat), user);
    return scripts.history.run(this.#context, { ...keys, member }, args, this.#options());
  }

  /** Chats of one shard. */
  unread(shard: number, user: string, chats: readonly string[]): Promise<number[]> {
    const keys = chats.map((chat) => this.keys.chat(chat));
    const own = { member: this.keys.member(shard, user), heads: this.keys.heads(shard), keys };
    return scripts.unread.run(this.#context, own, { user, chats }, this.#options());
  }

  subscribe(shards: readonly number[], leaseMs: number): Promise<number> {
    const heads = shards.map((shard) => this.keys.heads(shard));
    return scripts.subscribe.run(this.#context, { heads }, { leaseMs }, this.#options());
  }

  // Mailboxes --------------------------------------------------------------------------------------------------------

  /** It has no signal: an abort would leave messages leased without a worker. */
  take(
    args: { readonly chat: string; readonly token: string } & ArgsOf<typeof scripts.take>,
  ): Promise<scripts.TakeReply> {
    const { chat, token } = args;
    return scripts.take.run(this.#context, this.#withMember(chat, chat), args, { ...this.#options(), op: token });
  }

  settle(chat: string, sequence: number, token: string, leaseMs: number): Promise<number> {
    const args = { chat, user: chat, sequence, token, leaseMs };
    return scripts.settle.run(this.#context, this.#withMember(chat, chat), args, this.#options());
  }

  mailbox(chat: string): Promise<scripts.MailboxReply> {
    return scripts.mailbox.run(this.#context, this.#withMember(chat, chat), { chat }, this.#options());
  }

  #options(signal?: AbortSignal): RunOptions {
    return { deadlineMs: this.#deadlineMs, signal };
  }

  #withMember(chat: string, user: string): ChatKeys & { readonly member: string } {
    return { ...this.keys.chat(chat), member: this.keys.member(this.keys.shardOf(chat), user) };
  }

  #withMembers(chat: string, names: readonly string[]): KeysOfMembers {
    const shard = this.keys.shardOf(chat);
    return { ...this.keys.chat(chat), members: names.map((name) => this.keys.member(shard, name)) };
  }

  #ofSenders({ chat, items }: SendArgs): KeysOfMembers {
    const names = items.map(({ from }) => from);
    return this.#withMembers(chat, names);
  }
}

/** The error for a refusal that concerns the chat or its member; undefined for other codes. */
export const refusalOf = (code: number, chat: string, member: string): KitError | undefined => {
  if (code === scripts.refusal.unknown) return new ChatUnknownError(chat);
  if (code === scripts.refusal.notMember) return new ChatMemberError(chat, member);
  return undefined;
};

/** @throws {ChatUnknownError | ChatMemberError} the code is a refusal with this error. */
export const assertDone = (code: number, chat: string, member = ""): void => {
  const refused = refusalOf(code, chat, member);
  if (refused) throw refused;
};
