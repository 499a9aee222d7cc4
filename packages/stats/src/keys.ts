import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All keys of one series, or of one message log, share a hash tag and so a slot;
 * different series spread over a Cluster. Each key has an expiry.
 *
 * | Key                                      | Type   | Content                                           | Life                                      |
 * | ---------------------------------------- | ------ | ------------------------------------------------- | ----------------------------------------- |
 * | `kit:stats:{series}:total`               | hash   | `layout`, `total`                                 | the longest retention and a day, after the last new bucket |
 * | `kit:stats:{series}:c:<stepMs>:<start>`  | hash   | number of the bucket in its chunk, 0–59 → amount  | `keepMs` after the chunk's end            |
 * | `kit:stats:{series}:dist`                | hash   | `layout`, moments, sketch bins, of all time       | as `total`                                |
 * | `kit:stats:{series}:w:<stepMs>:<start>`  | hash   | moments and sketch bins of one window             | `keepMs` after the window's end           |
 * | `kit:stats:{series}:s:<stepMs>:<start>`  | zset   | subject → its largest value in one window         | as the window                             |
 * | `kit:stats:{series}:writer:<id>`         | string | `sequence result`: the last batch of one writer   | 10 minutes; of `apply()` 7 days           |
 * | `kit:stats:{metric}:index`               | zset   | series → when it was last counted, of a metric with labels | as its totals                    |
 * | `kit:stats:{log}:meta`                   | hash   | `layout`                                          | as the longest of the log                 |
 * | `kit:stats:{log}:log:<level>`            | stream | the last entries of a level                       | `keepMs` after the last one               |
 * | `kit:stats:{log}:top:<level>:<start>`    | zset   | fingerprint → count                               | `keepMs` after the window's end           |
 * | `kit:stats:{log}:seen:<level>:<start>`   | hash   | fingerprint → `error first last sample`           | as `top`                                  |
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
