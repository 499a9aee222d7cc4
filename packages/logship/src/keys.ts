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
 * Every key that this package writes. All keys of one name share the hash tag `{name}`, so they are in one slot.
 *
 * A job has these keys until `delete()`:
 *
 * | Key | Type | Content | Life |
 * | --- | --- | --- | --- |
 * | `kit:logship:{name}:job` | hash | `layout`; `fence`: the last fence; `result <key>` of each key with results; `sent <key>`: the last number given to a sink | permanent |
 * | `kit:logship:{name}:progress` | hash | Per file (`dev-inode`): `<file>:prefix`, `:content`, `:stamp` (size, times of change and creation). Per content: `<content>:position`, `:seq`, `:fence`, `:op`, `:file` (the last file that had it), `:name`, `:lines`, `:state`, `:former` (the previous content of its file). `content <beginning>` → the contents with this beginning. `name <name>` → the last content and first line of a file with this name | permanent |
 * | `kit:logship:{name}:claims` | zset | content → the server's ms at which its worker's lease ends | until no file is claimed |
 * | `kit:logship:{name}:results:<r>` | hash, set or zset | the results named `r` | permanent |
 * | `kit:logship:{name}:sending:<r>` | hash | field → sum of the result `r`, on its way to a sink | until the sink has them |
 * | `kit:logship:{name}:pending` | hash | `<content> <seq> <number>` → a piece of the results of a large commit, as JSON | until it is applied |
 *
 * A channel has these keys until `deleteChannel()`:
 *
 * | Key | Type | Content | Life |
 * | --- | --- | --- | --- |
 * | `kit:logship:{name}:channel` | hash | `layout`, `epoch`, `limit`, `used`, `reserved`, `reserved <file fence>` of each shipper, `lastFile`, `firstOpen` (files with lower ids are sealed or removed), `fence`, `closed`, `trimmed`, `result <key>`, `sent <key>`, `dropped <consumer>`, `needs` (` <id>:<bytes>` of each open file that is passed through). `since`: the µs at which it was created | permanent |
 * | `kit:logship:{name}:files` | hash | Per file: `<id>:name`, `:source`, `:codec`, `:state`, `:fence`, `:at` (last open or commit), `:chunks`. `:freed` and `:from` (the slowest consumer's position at the last freeing). `:text`, `:stored`, `:lines`, `:crc`, `:unit` (memory of its largest chunk), `:sha256`, `:fault` (the reason why it ended early) | until every consumer is done with the file |
 * | `kit:logship:{name}:live` | zset | id of each file in the channel, scored by itself | the same |
 * | `kit:logship:{name}:sources` | hash | source identity → file id, followed by its totals when the file no longer exists; `text <beginning>` → the identities of files with this beginning | the last 10,000 completed sources |
 * | `kit:logship:{name}:done` | zset | source identity → ms at which it was done | the same |
 * | `kit:logship:{name}:chunks` | hash | `<file> <ordinal>` → `part size text crc lines storedAt textAt` | until freed |
 * | `kit:logship:{name}:chunk:<part>` | string | the stored bytes of one chunk | until freed; before its commit, until its reservation ends |
 * | `kit:logship:{name}:leases` | zset | `file fence` → ms at which the reservation ends | `leaseMs` after the last command of its shipper |
 * | `kit:logship:{name}:consumers` | hash | consumer → `fence after op`: it gets files with an id above `after`; `op` is the call that took the fence | until removed |
 * | `kit:logship:{name}:seen` | zset | consumer → ms of its last commit or look | the same |
 * | `kit:logship:{name}:positions` | hash | `<file> <consumer>` → `seq chunk state position cause`; the state is open, done or quarantined | until the file is removed |
 * | `kit:logship:{name}:free` | hash | part of a chunk that no consumer needs → the bytes that it counts for | until it is unlinked, immediately afterward |
 * | `kit:logship:{name}:results:<c>:<r>` | hash, set or zset | the results named `r` of consumer `c` | permanent |
 * | `kit:logship:{name}:sending:<c>:<r>` | hash | field → sum of the result, on its way to a sink | until the sink has them |
 * | `kit:logship:{name}:pending:<c>` | hash | `<file> <seq> <number>` → a piece of the results of a large commit of consumer `c`, as JSON | until it is applied |
 *
 * The Pub/Sub channel `kit:logship:{name}:events` carries the messages `file` (a job's worker returned or finished a file), `data` (new
 * chunks, a sealed file, a closed channel) and `space`. Each is a hint: its receiver reads the state again.
 */
export interface LogshipKeys extends Readonly<Record<(typeof names)[number], string>> {
  chunk(part: string): string;
  /** `names` is the result's name; in a channel, the consumer's name comes first. */
  result(...names: readonly string[]): string;
  sending(...names: readonly string[]): string;
  /** Without a name, the key of the job; otherwise the consumer's key. */
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

/** @throws {TypeError | RangeError} the name is not text of 1 to `maxLength` characters, or has a lone surrogate. */
export const nameOption = (option: string, name: string, maxLength: number): string => {
  if (/\p{Cs}/u.test(textOption(option, name, maxLength)))
    throw new RangeError(`Expected \`${option}\` to be well-formed Unicode`);
  return name;
};
