import { descriptor as autocomplete } from "@kit/autocomplete/descriptor";
import { descriptor as chat } from "@kit/chat/descriptor";
import type { PackageDescriptor } from "@kit/core/toolkit";
import { descriptor as geoip } from "@kit/geoip/descriptor";
import { descriptor as limiter } from "@kit/limiter/descriptor";
import { descriptor as lock } from "@kit/lock/descriptor";
import { descriptor as logship } from "@kit/logship/descriptor";
import { createQueue, type Job, type Queue, UnrecoverableError, type Worker } from "@kit/queue";
import { descriptor as queue } from "@kit/queue/descriptor";
import { inspectQueue } from "@kit/queue/manage";
import { descriptor as semaphore } from "@kit/semaphore/descriptor";
import { descriptor as stats } from "@kit/stats/descriptor";
import { eventually, type RedisMode, type TestRedis } from "@kit/testing";
import { expect } from "vitest";
import { type Board, type BoardOptions, createBoard } from "../src/index.js";

/** All packages that a board can show. */
export const packages: readonly PackageDescriptor[] = [
  ...[autocomplete, chat, geoip, limiter, lock, logship, queue, semaphore, stats],
];

/** Things of most packages keep some keys for good. */
export const permanentKeys: readonly RegExp[] = [/./];

/** Where the tests mount the board. */
export const at = "http://board.test/any/where";

/** A page, as a browser without scripts sees it. */
export interface Seen {
  readonly status: number;
  readonly html: string;
  /** The text of the page, with single spaces. */
  readonly text: string;
  readonly headers: Headers;
}

const unescaped = (text: string): string =>
  text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");

export const seen = async (response: Response): Promise<Seen> => {
  const html = await response.text();
  const text = unescaped(html.replace(/<[^>]*>/g, " ")).replace(/\s+/g, " ");
  return { status: response.status, html, text, headers: response.headers };
};

type Pairs = readonly (readonly [string, string])[];
const queryOf = (pairs: Pairs): string => new URLSearchParams(pairs as [string, string][]).toString();

/** The address of a thing. */
export const thing = (kind: string, names: readonly string[], ...more: Pairs): string =>
  queryOf([["thing", kind], ...names.map((name) => ["name", name] as const), ...more]);

/** What tests do with a board. */
export class Visitor {
  readonly board: Board;

  constructor(board: Board) {
    this.board = board;
  }

  async get(query = "", headers: Readonly<Record<string, string>> = {}): Promise<Seen> {
    return await seen(await this.board(new Request(`${at}?${query}`, { headers })));
  }

  /** Sends a form as a page of the board does, unless the headers say otherwise. */
  async post(query: string, fields: Pairs = [], headers: Readonly<Record<string, string>> = {}): Promise<Seen> {
    const all = { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin", ...headers };
    return await seen(
      await this.board(new Request(`${at}?${query}`, { method: "POST", headers: all, body: queryOf(fields) })),
    );
  }
}

/** A board of a test, where everything is allowed unless the options say otherwise. */
export const visit = (redis: TestRedis<RedisMode>, options: Partial<BoardOptions> = {}): Visitor =>
  new Visitor(createBoard(redis.client, { packages, prefix: redis.prefix, authorize: () => "ann", ...options }));

/** A queue with a job in each state. */
export interface Filled {
  readonly queue: Queue;
  readonly worker: Worker;
  readonly ids: Readonly<Record<"dead" | "active" | "waiting" | "urgent" | "delayed", string>>;
  /** Lets the active job end. */
  readonly finish: () => void;
}

export const fill = async (redis: TestRedis<RedisMode>, name = "mail"): Promise<Filled> => {
  const address = { queue: name, prefix: redis.prefix };
  const queue = createQueue(redis.client, name, { prefix: redis.prefix });
  let finish: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const failing = (job: Job): void => {
    throw new UnrecoverableError(`no such address: ${String((job.data as { to: string }).to)}`, {
      cause: new Error("550 from the server"),
    });
  };
  const worker = queue.work({ bad: failing, slow: async () => await held }, { leaseMs: 1_000, strict: true });
  redis.defer(async () => {
    finish();
    await queue.close({ timeoutMs: 5_000 });
  });
  const dead = await queue.add("bad", { to: "ann" });
  await eventually(async () => expect(await queue.deadLetters()).toHaveLength(1));
  const active = await queue.add("slow", { secret: "s3cret" });
  await eventually(async () => expect((await inspectQueue(redis.client, address)).active).toBe(1));
  const waiting = await queue.add("slow", { to: "bob" });
  const urgent = await queue.add("slow", { to: "eve" }, { priority: -5 });
  const delayed = await queue.add("slow", { to: "zoe" }, { delayMs: 3_600_000 });
  return { queue, worker, ids: { dead, active, waiting, urgent, delayed }, finish };
};
