import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All keys of one series, or of one message log, share a hash tag and so a slot;
 * different series spread over a Cluster. Each key has an expiry, which is set with its first write.
 *
 * | Key                                     | Type   | Content                                                                  | Life                                                               |
 * | --------------------------------------- | ------ | ------------------------------------------------------------------------ | ------------------------------------------------------------------ |
 * | `kit:stats:{series}:total`              | hash   | `layout`, `total`                                                        | the longest retention, and one day more, after the last new bucket |
 * | `kit:stats:{series}:c:<stepMs>:<start>` | hash   | a chunk of sixty buckets: number of the bucket, 0–59 → amount            | `keepMs` after the end of the chunk                                |
 * | `kit:stats:{series}:dist`               | hash   | `layout`; of all time: moments, bins of the sketch, counts up to bounds  | as `total`, after the last new window                              |
 * | `kit:stats:{series}:w:<stepMs>:<start>` | hash   | moments and bins of one window                                           | `keepMs` after the end of the window                               |
 * | `kit:stats:{series}:s:<stepMs>:<start>` | zset   | subject → its largest value in one window, for `slowest`                 | as the window                                                      |
 * | `kit:stats:{series}:writer:<id>`        | string | `sequence result`: the last batch of one writer (effectively-once)       | 10 minutes; for `apply()` 7 days                                    |
 * | `kit:stats:{metric}:index`              | zset   | series → when it was last counted (epoch ms), of a metric with labels    | as the totals of its series                                        |
 * | `kit:stats:{log}:meta`                  | hash   | `layout`                                                                 | the longest retention of the log, and one day more                 |
 * | `kit:stats:{log}:log:<level>`           | stream | the last `keepEntries` entries of a level                                | `keepMs` after the last                                            |
 * | `kit:stats:{log}:top:<level>:<start>`   | zset   | fingerprint → score, at most `maxDistinct`                               | `keepMs` after the end of the window                               |
 * | `kit:stats:{log}:seen:<level>:<start>`  | hash   | fingerprint → `sure first last sample`; empty name → `missed evicted`    | as `top`                                                           |
 * | `kit:stats:{log}:writer:<id>`           | string | `sequence 1`: the last batch of one writer (effectively-once)            | 10 minutes                                                         |
 *
 * A series is `name;label=value;…`, labels sorted by name. Braces, colons, percent signs and control characters are escaped.
 */
export interface SeriesKeys {
  readonly total: string;
  readonly dist: string;
  writer(id: string): string;
  chunk(stepMs: number, startAt: number): string;
  window(stepMs: number, startAt: number): string;
  slowest(stepMs: number, startAt: number): string;
}

/** The keys of one series, by its id. */
export const seriesKeys = (prefix: string, id: string): SeriesKeys => {
  const head = keyspace("stats", prefix).base(id);
  return {
    total: `${head}total`,
    dist: `${head}dist`,
    writer: (writer) => `${head}writer:${writer}`,
    chunk: (stepMs, startAt) => `${head}c:${String(stepMs)}:${String(startAt)}`,
    window: (stepMs, startAt) => `${head}w:${String(stepMs)}:${String(startAt)}`,
    slowest: (stepMs, startAt) => `${head}s:${String(stepMs)}:${String(startAt)}`,
  };
};

/** The list of a metric's series. */
export const indexKey = (prefix: string, metric: string): string => `${keyspace("stats", prefix).base(metric)}index`;

/** The keys of one message log. */
export interface LogKeys {
  readonly meta: string;
  writer(id: string): string;
  log(level: string): string;
  top(level: string, startAt: number): string;
  seen(level: string, startAt: number): string;
}

export const logKeys = (prefix: string, name: string): LogKeys => {
  const head = keyspace("stats", prefix).base(name);
  return {
    meta: `${head}meta`,
    writer: (writer) => `${head}writer:${writer}`,
    log: (level) => `${head}log:${level}`,
    top: (level, startAt) => `${head}top:${level}:${String(startAt)}`,
    seen: (level, startAt) => `${head}seen:${level}:${String(startAt)}`,
  };
};
