import { keyspace } from "@kit/core";
import { textOption } from "@kit/core/toolkit";

const names = [
  "job",
  "progress",
  "claims",
  "channel",
  "files",
  "live",
  "sources",
  "done",
  "chunks",
  "leases",
  "consumers",
  "seen",
  "positions",
  "free",
  "events",
] as const;

/**
 * Every key that this package writes. All keys of one name share the hash tag `{name}`, so they lie in one slot.
 *
 * A job has these, until `delete()`:
 *
 * | Key | Type | Content | Life |
 * | --- | --- | --- | --- |
 * | `kit:logship:{name}:job` | hash | `layout`; `fence`: the last one; `result <key>` of each key with results; `sent <key>`: the last number given to a sink | permanent |
 * | `kit:logship:{name}:progress` | hash | of a file (`dev-inode`) `<file>:prefix`, `:content`, `:stamp` (size, times of change and creation); of a content `<content>:position`, `:seq`, `:fence`, `:op`, `:file` (the last one that had it), `:name`, `:lines`, `:state`, `:former` (what its file had before); `content <beginning>` → the contents that begin so; `name <name>` → the content that a file of this name had last, and its first line | permanent |
 * | `kit:logship:{name}:claims` | zset | content → the server's ms at which its worker's lease ends | until no file is claimed |
 * | `kit:logship:{name}:results:<r>` | hash, set or zset | the results named `r` | permanent, the user's |
 * | `kit:logship:{name}:sending:<r>` | hash | field → sum of the result `r`, on its way to a sink | until the sink has them |
 * | `kit:logship:{name}:pending` | hash | `<content> <seq> <number>` → a piece of the results of a large commit, as JSON | until it is applied |
 *
 * A channel has these, until `deleteChannel()`:
 *
 * | Key | Type | Content | Life |
 * | --- | --- | --- | --- |
 * | `kit:logship:{name}:channel` | hash | `layout`, `epoch`, `limit`, `used`, `reserved`, `reserved <file fence>` of each shipper, `lastFile`, `firstOpen` (files with lower ids are sealed or gone), `fence`, `closed`, `trimmed`, `result <key>`, `sent <key>`, `dropped <consumer>`, `needs` (` <id>:<bytes>` of each open file that is passed through) | permanent |
 * | `kit:logship:{name}:files` | hash | of each file `<id>:name`, `:source`, `:codec`, `:state`, `:fence`, `:at` (last open or commit), `:chunks`, `:freed`, `:from` (the slowest consumer's position then), `:text`, `:stored`, `:lines`, `:crc`, `:unit` (memory of its largest chunk), `:sha256`, `:fault` (the reason why it ended early) | until every consumer is done with the file |
 * | `kit:logship:{name}:live` | zset | id of each file in the channel, scored by itself | the same |
 * | `kit:logship:{name}:sources` | hash | source identity → file id, and once the file has gone its totals; `text <beginning>` → the identities of files that begin so | the last 10,000 that are done |
 * | `kit:logship:{name}:done` | zset | source identity → ms at which it was done | the same |
 * | `kit:logship:{name}:chunks` | hash | `<file> <ordinal>` → `part size text crc lines storedAt textAt` | until freed |
 * | `kit:logship:{name}:chunk:<part>` | string | the stored bytes of one chunk | until freed; before its commit until its reservation ends |
 * | `kit:logship:{name}:leases` | zset | `file fence` → ms at which the reservation ends | `leaseMs` after the last command of its shipper |
 * | `kit:logship:{name}:consumers` | hash | consumer → `fence after op`: it gets files with an id above `after`; `op` is the call that took the fence | until removed |
 * | `kit:logship:{name}:seen` | zset | consumer → ms of its last commit or look | the same |
 * | `kit:logship:{name}:positions` | hash | `<file> <consumer>` → `seq chunk state position cause`; the state is open, done or quarantined | until the file goes |
 * | `kit:logship:{name}:free` | hash | part of a chunk that no consumer needs → bytes that it counts for | until unlinked, at once |
 * | `kit:logship:{name}:results:<c>:<r>` | hash, set or zset | the results named `r` of consumer `c` | permanent, the user's |
 * | `kit:logship:{name}:sending:<c>:<r>` | hash | field → sum of that result, on its way to a sink | until the sink has them |
 * | `kit:logship:{name}:pending:<c>` | hash | `<file> <seq> <number>` → a piece of the results of a large commit of consumer `c`, as JSON | until it is applied |
 *
 * The Pub/Sub channel `kit:logship:{name}:events` has the messages `file` (of a job: a file was given back or done), `data` (chunks, a seal, the close) and `space`. Each is a hint:
 * its receiver reads the state again.
 */
export interface LogshipKeys extends Readonly<Record<(typeof names)[number], string>> {
  chunk(part: string): string;
  /** `names`: the result's name; in a channel the consumer's name before it. */
  result(...names: readonly string[]): string;
  sending(...names: readonly string[]): string;
  /** Without a name those of the job, otherwise those of the consumer. */
  pending(...consumer: readonly string[]): string;
}

/** The keys of one job or channel. */
export const logshipKeys = (prefix: string, name: string): LogshipKeys => {
  const head = keyspace("logship", prefix).base(name);
  return {
    ...(Object.fromEntries(names.map((part) => [part, head + part])) as Record<(typeof names)[number], string>),
    pending: (...consumer) => [`${head}pending`, ...consumer].join(":"),
    chunk: (part) => `${head}chunk:${part}`,
    sending: (...names) => `${head}sending:${names.map(encodeURIComponent).join(":")}`,
    result: (...names) => `${head}results:${names.map(encodeURIComponent).join(":")}`,
  };
};

/** @throws {TypeError | RangeError} the name is no text of 1 to `maxLength` characters, or has a lone surrogate. */
export const nameOption = (option: string, name: string, maxLength: number): string => {
  if (/\p{Cs}/u.test(textOption(option, name, maxLength)))
    throw new RangeError(`Expected \`${option}\` to be well-formed text`);
  return name;
};
