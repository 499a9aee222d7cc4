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
 * Every key that this package writes. All of one name share the hash tag `{name}`, so one slot. DESIGN.md has the content of each.
 *
 * Of a job, all permanent until `delete()`:
 *
 * | Key                              | Type           | Content                                       |
 * | -------------------------------- | -------------- | --------------------------------------------- |
 * | `kit:logship:{name}:job`         | hash           | layout, last fence                            |
 * | `kit:logship:{name}:progress`    | hash           | per file and content its facts, the position  |
 * | `kit:logship:{name}:claims`      | zset           | content → end of its worker's lease           |
 * | `kit:logship:{name}:results:<r>` | hash, set, zset| results                                       |
 * | `kit:logship:{name}:sending:<r>` | hash           | sums on their way to a sink, until it has them|
 * | `kit:logship:{name}:pending`     | hash           | results of a large commit, until applied      |
 *
 * Of a channel, permanent unless it says otherwise:
 *
 * | Key                              | Type           | Content                                       |
 * | -------------------------------- | -------------- | --------------------------------------------- |
 * | `kit:logship:{name}:channel`     | hash           | layout, epoch, limit, what is used, reserved  |
 * | `kit:logship:{name}:files`       | hash           | per file its facts                            |
 * | `kit:logship:{name}:live`        | zset           | files in the channel                          |
 * | `kit:logship:{name}:sources`     | hash           | source → file; beginning → sources            |
 * | `kit:logship:{name}:done`        | zset           | source → when all consumers were done with it |
 * | `kit:logship:{name}:chunks`      | hash           | descriptors                                   |
 * | `kit:logship:{name}:chunk:<part>`| string         | a chunk; expires while it is not committed    |
 * | `kit:logship:{name}:leases`      | zset           | reservation → its end                         |
 * | `kit:logship:{name}:consumers`   | hash           | consumer → its fence, its first file          |
 * | `kit:logship:{name}:seen`        | zset           | consumer → its last sign of life              |
 * | `kit:logship:{name}:positions`   | hash           | per file and consumer the position            |
 * | `kit:logship:{name}:free`        | hash           | chunks still to be unlinked                   |
 * | `kit:logship:{name}:results:<c>:<r>` | hash, set, zset| results of the consumer `c`               |
 * | `kit:logship:{name}:sending:<c>:<r>` | hash           | sums on their way to a sink               |
 * | `kit:logship:{name}:pending:<c>`     | hash           | results of a large commit, until applied  |
 *
 * `kit:logship:{name}:events` is a Pub/Sub channel.
 */
export interface LogshipKeys extends Readonly<Record<(typeof names)[number], string>> {
  chunk(part: string): string;
  /** Of a job the result's name; of a channel the consumer's and the result's. */
  result(...names: readonly string[]): string;
  sending(...names: readonly string[]): string;
  /** Of a job, or of a consumer. */
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
