// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { KitError, RedisLike } from "@kit/core";
import type { Cluster, Redis } from "ioredis";
import type {
  AutocompleteErrorCode,
  ChangeOptions,
  Contact,
  ContactBook,
  ContactBookOptions,
  ContactCard,
  ContactList,
  ContactSuggestions,
  createContactBook,
  createPrefixIndex,
  DamagedIndexError,
  Entry,
  EntryFault,
  fold,
  InvalidEntryError,
  PrefixIndex,
  PrefixIndexEvents,
  PrefixIndexInspection,
  PrefixIndexOptions,
  PutManyOptions,
  RebuildOptions,
  Range,
  RebuildLostError,
  RebuildResult,
  SessionAnswer,
  SessionOptions,
  StoredRules,
  Suggestion,
  Suggestions,
  SuggestOptions,
  SuggestSession,
  TouchOptions,
} from "../src/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
type Option<T> = T | undefined;
type Call<F> = F extends (...args: infer Args) => infer Result ? [Args, Result] : never;
type Client = "prefix" | "isolate" | "deadlineMs";
type Matching = "match" | "marks" | "locale";
type Member = { readonly level: number };
type Members = PrefixIndex<Member>;
type Source = Iterable<Entry<Member>> | AsyncIterable<Entry<Member>>;

export type Pins = [
  Check<
    Same<Parameters<typeof createPrefixIndex>, [redis: RedisLike, name: string, options?: Option<PrefixIndexOptions>]>
  >,
  Check<
    Same<Parameters<typeof createContactBook>, [redis: RedisLike, owner: string, options?: Option<ContactBookOptions>]>
  >,
  Check<Redis | Redis<"resp3"> | Cluster extends RedisLike ? true : false>,
  Check<
    Same<
      keyof PrefixIndexOptions,
      Client | Matching | "order" | "rankedLength" | "empty" | "shards" | "maxPayloadBytes"
    >
  >,
  Check<
    Same<
      keyof ContactBookOptions,
      Client | Matching | "ranking" | "halfLifeMs" | "max" | "maxAgeMs" | "keepMs" | "maxPayloadBytes"
    >
  >,
  Check<
    Same<
      Exclude<keyof Members, "on" | "once" | "off" | "emit">,
      | "name"
      | "put"
      | "putMany"
      | "delete"
      | "touch"
      | "suggest"
      | "session"
      | "rebuild"
      | "inspect"
      | "purge"
      | "close"
      | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<keyof PrefixIndexEvents, "mismatch" | "evictable" | "error">>,
  Check<Same<Call<Members["put"]>, [[entry: Entry<Member>, options?: Option<ChangeOptions>], Promise<void>]>>,
  Check<Same<Call<Members["putMany"]>, [[entries: Source, options?: Option<PutManyOptions<Member>>], Promise<number>]>>,
  Check<Same<Call<Members["delete"]>, [[id: string, options?: Option<ChangeOptions>], Promise<boolean>]>>,
  Check<Same<Call<Members["touch"]>, [[id: string, options?: Option<TouchOptions>], Promise<boolean>]>>,
  Check<
    Same<Call<Members["suggest"]>, [[query: string, options?: Option<SuggestOptions>], Promise<Suggestions<Member>>]>
  >,
  Check<Same<Call<Members["session"]>, [[options?: Option<SessionOptions>], SuggestSession<Member>]>>,
  Check<
    Same<
      Call<Members["rebuild"]>,
      [[entries: Source, options?: Option<RebuildOptions<Member>>], Promise<RebuildResult>]
    >
  >,
  Check<Same<keyof PrefixIndexInspection, "rules" | "items" | "rows" | "ranked" | "staged">>,
  Check<Same<keyof StoredRules, "order" | "match" | "rankedLength" | "empty" | "marks" | "locale" | "foldVersion">>,
  Check<Same<keyof Entry, "id" | "text" | "weight" | "payload">>,
  Check<Same<keyof Suggestions, "items" | "hasMore" | "truncated">>,
  Check<Same<keyof Suggestion, "id" | "text" | "weight" | "payload" | "ranges">>,
  Check<Same<Suggestion<Member>["payload"], Option<Member>>>,
  Check<Same<Range, readonly [start: number, end: number]>>,
  Check<Same<keyof SuggestOptions, "limit" | "words" | "typos" | "signal">>,
  Check<Same<keyof SessionOptions, "limit" | "words" | "typos" | "prefetch" | "maxAgeMs" | "debounceMs">>,
  Check<Same<Call<SuggestSession<Member>["type"]>, [[query: string], Promise<SessionAnswer<Member> | null>]>>,
  Check<Same<keyof SessionAnswer, keyof Suggestions | "query" | "isLocal">>,
  Check<
    Same<
      keyof ContactBook,
      | "owner"
      | "record"
      | "remove"
      | "block"
      | "unblock"
      | "list"
      | "suggest"
      | "purge"
      | "close"
      | typeof Symbol.asyncDispose
    >
  >,
  Check<Same<keyof ContactCard, "text" | "payload">>,
  Check<Same<keyof Contact, "id" | "text" | "payload" | "ranges" | "score">>,
  Check<Same<keyof ContactSuggestions, "items" | "hasMore" | "version">>,
  Check<Same<ContactList["blocked"], readonly string[]>>,
  Check<Same<Parameters<typeof fold>[0], string>>,
  Check<Same<Exclude<AutocompleteErrorCode, `KIT_AUTOCOMPLETE_${string}`>, never>>,
  Check<Same<InvalidEntryError["fault"], EntryFault>>,
  Check<InvalidEntryError | RebuildLostError | DamagedIndexError extends KitError ? true : false>,
];

declare const members: Members;
void members.put({ id: "1", text: "Ann", payload: { level: 1 } });
// @ts-expect-error a payload of another type
void members.put({ id: "1", text: "Ann", payload: { level: "1" } });
// @ts-expect-error no text
void members.put({ id: "1" });
