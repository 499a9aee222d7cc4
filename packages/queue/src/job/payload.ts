import type { ResolvedBackoff } from "./backoff.js";
import { JobPayloadError } from "./errors.js";
import type { Expiry } from "./expiry.js";
import { encodedName } from "./names.js";
import { letters } from "./words.js";
import type { JobPolicy } from "./options.js";

/** The options of a job, from its stored header. */
export interface JobHeader {
  readonly name: string;
  readonly maxAttempts: number;
  readonly backoff: ResolvedBackoff | undefined;
  readonly timeoutMs: number | undefined;
  readonly expires: Expiry | undefined;
  readonly priority: number;
  readonly group: string | undefined;
  readonly isBytes: boolean;
  /** The caller that waits for the outcome, as `inbox.caller`. */
  readonly replyTo: string | undefined;
  /** The key of a unique job, and whether another job can wait for this one to end. */
  readonly uniqueKey: string | undefined;
  readonly keepsLast: boolean;
  /** Whether it is in a flow, and whether it has parents there. */
  readonly isInFlow: boolean;
  readonly isChild: boolean;
  /** The words of its key, of its successor, and of its flow. */
  readonly keyWords: readonly string[];
}

const word = (option: keyof typeof letters, value: string | number | undefined): string =>
  value === undefined ? "" : ` ${letters[option]}${String(value)}`;

/** The header of jobs of one kind: `name[ options]`, all ASCII. `keyWords`: see `unique.ts`. `group` is encoded. */
export const headOf = (
  name: string,
  policy: JobPolicy,
  priority: number,
  isBytes: boolean,
  replyTo?: string,
  keyWords: readonly string[] = [],
  traceparent?: string,
  group?: string,
): string => {
  const { maxAttempts, backoff, timeoutMs, expires } = policy;
  // Not a loop over a list of all options: that took an eighth of the process's time for an add.
  return (
    encodedName(name) +
    word("maxAttempts", maxAttempts === 1 ? undefined : maxAttempts) +
    word("backoff", backoff && [backoff.firstMs, backoff.factor, backoff.maxMs, backoff.jitter].join()) +
    word("timeoutMs", timeoutMs) +
    word("expires", expires && `${String(expires.afterMs)}${expires.from > 0 ? `@${String(expires.from)}` : ""}`) +
    word("priority", priority || undefined) +
    word("group", group) +
    word("replyTo", replyTo) +
    word("traceparent", traceparent) +
    word("bytes", isBytes ? "" : undefined) +
    keyWords.map((one) => ` ${one}`).join("")
  );
};

const keyLetters = [letters.uniqueKey, letters.latestKey, letters.successor, letters.flow];

const parseHead = (head: string): JobHeader => {
  const [name = "", ...words] = head.split(" ");
  const option = (name: keyof typeof letters): string | undefined =>
    words.find((one) => one.startsWith(letters[name]))?.slice(1);
  const number = (name: keyof typeof letters): number | undefined => {
    const text = option(name);
    return text === undefined ? undefined : Number(text);
  };
  const [last, backoff, expires, group] = [option("latestKey"), option("backoff"), option("expires"), option("group")];
  const key = last ?? option("uniqueKey");
  const flow = option("flow");
  const [firstMs = 0, factor = 1, maxMs = 0, jitter = 0] = (backoff ?? "").split(",").map(Number);
  const [afterMs = 0, from = 0] = (expires ?? "").split("@").map(Number);
  return {
    name: decodeURIComponent(name),
    maxAttempts: number("maxAttempts") ?? 1,
    backoff: backoff === undefined ? undefined : { firstMs, factor, maxMs, jitter },
    timeoutMs: number("timeoutMs"),
    expires: expires === undefined ? undefined : { afterMs, from },
    priority: number("priority") ?? 0,
    group: group === undefined ? undefined : decodeURIComponent(group),
    isBytes: option("bytes") !== undefined,
    replyTo: option("replyTo"),
    uniqueKey: key === undefined ? undefined : decodeURIComponent(key),
    keepsLast: last !== undefined,
    isInFlow: flow !== undefined,
    isChild: (flow ?? "") !== "",
    keyWords: words.filter((one) => keyLetters.some((letter) => one.startsWith(letter))),
  };
};

/** Jobs of one kind share a header. The cache is bounded, because names can come from user input. */
const heads = new Map<string, JobHeader>();
const mostHeads = 1_000;

const headerOf = (head: string): JobHeader => {
  const known = heads.get(head);
  if (known) return known;
  if (heads.size >= mostHeads) heads.clear();
  const parsed = parseHead(head);
  heads.set(head, parsed);
  return parsed;
};

/** Data as it is stored. */
export type Payload = string | Buffer;

/**
 * Encodes data as JSON. A Uint8Array stays unchanged. As with JSON.stringify, a Date becomes its ISO text, and undefined in an object is
 * dropped. Undefined as the whole data is kept.
 *
 * @throws {JobPayloadError} JSON cannot hold the data (a bigint, a cycle), or the data is larger than `maxBytes`.
 */
export const encodePayload = (
  name: string,
  data: unknown,
  maxBytes: number,
  what: "data" | "result" = "data",
): Payload => {
  const payload = data instanceof Uint8Array ? Buffer.from(data) : toJson(name, data, what);
  // No UTF-16 unit takes more than three bytes.
  if (payload.length * 3 > maxBytes) {
    const bytes = Buffer.byteLength(payload);
    if (bytes > maxBytes)
      throw new JobPayloadError(
        name,
        `has ${String(bytes)} bytes, more than the maximum of ${String(maxBytes)}`,
        undefined,
        what,
      );
  }
  return payload;
};

const toJson = (name: string, data: unknown, what: "data" | "result"): string => {
  try {
    // `JSON.stringify` returns undefined for a value that JSON does not have. Here that is the empty text.
    return (JSON.stringify(data) as string | undefined) ?? "";
  } catch (error) {
    throw new JobPayloadError(name, "cannot be written as JSON", error, what);
  }
};

/** The data in the form that its worker reads. */
export const readPayload = (payload: Payload): unknown =>
  typeof payload !== "string" ? payload : payload === "" ? undefined : (JSON.parse(payload) as unknown);

/** The stored form of a job: its header line and its payload. */
export const blobOf = (stamp: string, head: string, payload: Payload): Payload => {
  const header = `${stamp} ${head}\n`;
  return typeof payload === "string" ? header + payload : Buffer.concat([Buffer.from(header), payload]);
};

const traceStart = ` ${letters.traceparent}`;
const traceWord = new RegExp(`${traceStart}(\\S+)`);

/** A stored job. Its payload is still encoded. */
export interface StoredJob {
  readonly addedAt: number;
  readonly header: JobHeader;
  /** The span that added it. */
  readonly traceparent: string | undefined;
  /** Where the payload starts. */
  readonly start: number;
}

/** @throws {Error} this package did not store the job. */
export const parseBlob = (blob: Buffer): StoredJob => {
  const end = blob.indexOf(10);
  const line = blob.toString("latin1", 0, end);
  const space = line.indexOf(" ");
  if (end < 0 || space < 0) throw new Error("The stored job is damaged");
  // Each job has its own, so it is not part of the header that jobs share.
  const head = line.slice(space + 1);
  const [word = "", traceparent] = head.includes(traceStart) ? (traceWord.exec(head) ?? []) : [];
  return {
    addedAt: Number.parseInt(line.slice(0, space), 36),
    header: headerOf(head.replace(word, "")),
    traceparent,
    start: end + 1,
  };
};

/** @throws {SyntaxError} the payload is not JSON. */
export const decodePayload = (blob: Buffer, { header, start }: StoredJob): unknown => {
  if (header.isBytes) return blob.subarray(start);
  return blob.length === start ? undefined : JSON.parse(blob.toString("utf8", start));
};
