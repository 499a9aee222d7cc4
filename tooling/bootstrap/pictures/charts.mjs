import { readFileSync } from "node:fs";
import { join } from "node:path";
import { foreignNumbers } from "../checks/figures.mjs";
import { root } from "../repo.mjs";
import { bars } from "./bars.mjs";

/**
 * A case of the bench, with its title in a picture and the names of those that stand beside kit. Of each package also a case is shown
 * in which another is better.
 * `missing` says why a figure is not there.
 * @typedef {{ of: string, case: string, title: string, others: Record<string, string>, missing?: string }} Choice
 * @typedef {import("../checks/figures.mjs").Case & { about: string, run?: { date: string }, floor: { median?: number } | null }} Case
 */

const bull = { "bullmq@6.7.0": "BullMQ 6.7", "bee-queue@2.0.0": "bee-queue 2.0" };
const locks = {
  "redlock@5.0.0-beta.2": "redlock 5 beta",
  "redlock@4.2.0": "redlock 4.2",
  "redis-semaphore@5.8.0": "redis-semaphore 5.8",
};
const semaphore = { "redis-semaphore@5.8.0": "redis-semaphore 5.8" };
/** The algorithms of the book. */
const book = { classic: "Redis in Action" };

/** @type {Record<string, Choice>} */
const choice = {
  strict: {
    of: "queue",
    case: "process c=100 strict but coalesced",
    title: "Empty jobs, 100 at a time, none taken ahead",
    others: bull,
  },
  killed: {
    of: "queue",
    case: "recovery after kill -9",
    title: "A killed worker's job runs again after (defaults)",
    others: bull,
    missing: "only if you call checkStalledJobs",
  },
  serial: { of: "queue", case: "add serial", title: "Adding jobs one after another", others: bull },
  server: {
    of: "queue",
    case: "redis µs per lifecycle c=100",
    title: "Server time for a job, with a backlog",
    others: bull,
  },
  wait: {
    of: "lock",
    case: "contended 16x4 hold=5ms wait p99",
    title: "16 callers hold a lock for 5 ms each: wait, p99",
    others: locks,
  },
  handOff: {
    of: "lock",
    case: "contended commands per hand-off 200 waiters",
    title: "One hand-off while 200 callers wait",
    others: locks,
  },
  free: { of: "lock", case: "uncontended c=1", title: "Acquire and release a free lock", others: locks },
  tooMany: {
    of: "semaphore",
    case: "over-admission under ±1 h client clock skew",
    title: "Permits above the limit when a client's clock is one hour off",
    others: semaphore,
  },
  permitWait: {
    of: "semaphore",
    case: "limit 10, 64 callers, hold 5 ms: wait p99",
    title: "64 callers, 10 permits: wait, p99",
    others: semaphore,
  },
  permits: {
    of: "semaphore",
    case: "throughput limit 10, 64 callers",
    title: "64 callers, 10 permits: throughput",
    others: semaphore,
  },
  idle: { of: "chat", case: "idle fetch G=1000", title: "Looking for new messages in 1000 quiet chats", others: book },
  sends: {
    of: "chat",
    case: "send 16 clients one chat",
    title: "16 clients send to one chat",
    others: { ...book, floor: "bare XADD" },
  },
  backlog: {
    of: "chat",
    case: "backlog fetch+ack",
    title: "Reading and acknowledging 10,000 messages",
    others: { ...book, floor: "XREADGROUP, XACK" },
  },
  gzip: {
    of: "logship",
    case: "lines gz",
    title: "Lines read from a gzip file",
    others: { "zcat | wc -l": "zcat | wc -l" },
  },
  held: { of: "logship", case: "bytes held framed gzip", title: "Bytes held by the server", others: book },
  upload: {
    of: "logship",
    case: "upload raw",
    title: "Uploading a file uncompressed",
    others: { ...book, floor: "pipelined SETs" },
  },
  counts: {
    of: "stats",
    case: "count 7 precisions c=64",
    title: "Counting at seven precisions, 64 callers",
    others: { ...book, "raw HINCRBY": "seven bare HINCRBY" },
  },
  memory: {
    of: "stats",
    case: "memory 7 precisions",
    title: "Memory of that counter",
    others: { "classic, cleaned": "Redis in Action, cleaned" },
  },
  buffered: {
    of: "stats",
    case: "count buffered 1000 series",
    title: "Counting in this process, 1,000 series",
    others: { "prom-client@15.1.3": "prom-client 15.1" },
  },
  eight: {
    of: "autocomplete",
    case: "suggest 8 callers one index",
    title: "Suggestions for 8 callers of one index",
    others: book,
  },
  keystrokes: {
    of: "autocomplete",
    case: "six keystrokes",
    title: "Six keystrokes in a search box",
    others: { "ZRANGEBYLEX and HMGET": "ZRANGEBYLEX, HMGET" },
  },
  ranges: {
    of: "autocomplete",
    case: "unranked",
    title: "Alphabetical, 8 callers",
    others: { "ZRANGEBYLEX of records": "plain ranges of records" },
  },
  silent: {
    of: "core",
    case: "Redis absent, silent",
    title: "The server accepts the connection and never replies: error after",
    others: { "ioredis@6.0.0": "ioredis 6" },
  },
  seen: {
    of: "core",
    case: "config change seen p50",
    title: "A changed value reaches another process after",
    others: { classic: "polling each second" },
  },
  refused: {
    of: "core",
    case: "Redis absent, refused",
    title: "The port refuses the connection: error after",
    others: { "ioredis@6.0.0": "ioredis 6" },
  },
};

const { strict, killed, serial, server, wait, handOff, free, tooMany, permitWait, permits, idle, sends, backlog } =
  choice;
const { gzip, held, upload, counts, memory, buffered, eight, keystrokes, ranges, silent, seen, refused } = choice;

/** @type {Record<string, { title: string, cases: readonly (Choice | undefined)[] }>} */
const pictures = {
  front: { title: "kit compared with other libraries", cases: [strict, killed, wait, tooMany, keystrokes, serial] },
  queue: { title: "@kit/queue", cases: [strict, killed, server, serial] },
  lock: { title: "@kit/lock", cases: [wait, handOff, free] },
  semaphore: { title: "@kit/semaphore", cases: [tooMany, permitWait, permits] },
  chat: { title: "@kit/chat", cases: [idle, sends, backlog] },
  logship: { title: "@kit/logship", cases: [gzip, held, upload] },
  stats: { title: "@kit/stats", cases: [counts, memory, buffered] },
  autocomplete: { title: "@kit/autocomplete", cases: [eight, keystrokes, ranges] },
  core: { title: "@kit/core", cases: [silent, seen, refused] },
};

/** The charts by their names. @returns {Map<string, string>} */
export function charts() {
  /** @type {Map<string, { date: string, cases: Case[] }>} */
  const kept = new Map();
  /** @param {string} name */
  const data = (name) => {
    /** @type {{ date: string, cases: Case[] }} */
    const found = kept.get(name) ?? JSON.parse(readFileSync(join(root, "apps/docs/bench", `${name}.json`), "utf8"));
    kept.set(name, found);
    return found;
  };
  return new Map(
    Object.entries(pictures).map(([name, { title, cases }]) => {
      const groups = cases.flatMap((one) => (one === undefined ? [] : [groupOf(one, data(one.of).cases)]));
      const dates = cases.flatMap((one) => {
        if (one === undefined) return [];
        const { date, cases: measured } = data(one.of);
        return [(measured.find((entry) => entry.case === one.case)?.run?.date ?? date).slice(0, 10)];
      });
      const days = [...new Set(dates)].toSorted((a, b) => a.localeCompare(b)).join(", ");
      const note = `Medians, one machine with two cores, not idle, ${days}. All cases, settings and rounds: apps/docs/bench.`;
      return [name, bars(title, groups, note)];
    }),
  );
}

/** @param {Choice} one @param {readonly Case[]} cases @returns {import("./bars.mjs").Group} */
function groupOf({ of, case: name, title, others, missing = "not within two minutes" }, cases) {
  const found = cases.find((entry) => entry.case === name);
  if (found === undefined) throw new Error(`${of}.json has no case "${name}"`);
  const wrong = foreignNumbers(title, found);
  if (wrong.length > 0) throw new Error(`The chart "${title}": the case has no ${wrong.join(", ")}: ${found.about}`);
  const isMore = found.better === "higher";
  /** @param {string} who @param {{ median?: number } | null | undefined} figure @param {boolean} isOurs */
  const bar = (who, figure, isOurs) => {
    const value = figure?.median;
    return {
      who,
      value,
      shown: value === undefined ? missing : against(value, isOurs === isMore ? "down" : "up"),
    };
  };
  return {
    title,
    unit: `${found.unit}, ${isMore ? "more" : "less"} is better`,
    bars: [
      bar(`@kit/${of}`, found.kit, true),
      ...Object.entries(others).map(([key, who]) => bar(who, key === "floor" ? found.floor : found.peers[key], false)),
    ],
  };
}

/** Three digits, rounded against us. @param {number} value @param {"up" | "down"} direction */
function against(value, direction) {
  if (value === 0) return "0";
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  const steps = Number((value / unit).toFixed(6));
  const rounded = (direction === "up" ? Math.ceil(steps) : Math.floor(steps)) * unit;
  return Number(rounded.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
}
