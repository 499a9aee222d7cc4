// The worked examples of the page: what runs at each rate.
import type { Mix } from "./load.js";

export const rates = [10, 1_000, 10_000, 100_000] as const;
export type Rate = (typeof rates)[number];

export interface Example {
  /** Names the table in the page. */
  readonly id: string;
  /** Operations a second. */
  readonly mixAt: (rate: Rate) => Mix;
}

/** How many processes share the work, each with counters of its own. */
export const processesAt: Readonly<Record<Rate, number>> = { 10: 2, 1_000: 4, 10_000: 10, 100_000: 100 };

/** In queues of at most 10,000 jobs a second. Between two measured rates a job costs as at the lower one, which is dearer. */
const jobsAt = (perSecond: number): Mix => {
  if (perSecond >= 10_000) return { "queue: a job, of busy producers": perSecond };
  return { [perSecond < 1_000 ? "queue: a job, 10 a second" : "queue: a job, 1,000 a second"]: perSecond };
};

/** By default a process flushes its counters four times a second. */
const flushesPerSecond = 4;

/** Parts of a hundred. */
export const shop = {
  suggestions: 30,
  fetches: 25,
  places: 10,
  locks: 10,
  jobs: 10,
  permits: 5,
  messages: 5,
  transactions: 5,
} as const;

type Part = keyof typeof shop;

/** The operation of each part, for so many a second. */
export const shopOperations: Readonly<
  Record<Part, { readonly about: string; readonly mixOf: (perSecond: number) => Mix }>
> = {
  suggestions: { about: "suggestions", mixOf: (count) => ({ "autocomplete: suggest": count }) },
  fetches: { about: "empty fetches of chats", mixOf: (count) => ({ "chat: fetch, nothing new": count }) },
  places: { about: "look-ups of an address", mixOf: (count) => ({ "geoip: look-up, not cached": count }) },
  locks: { about: "locks", mixOf: (count) => ({ "lock: acquire and release, free": count }) },
  jobs: { about: "jobs", mixOf: jobsAt },
  permits: { about: "permits", mixOf: (count) => ({ "semaphore: acquire and release, room": count }) },
  messages: {
    about: "messages with one reader",
    mixOf: (count) => ({ "chat: send, fetch and ack": count }),
  },
  transactions: { about: "transactions", mixOf: (count) => ({ "core: transaction (`optimistic`)": count }) },
};

export const examples: readonly Example[] = [
  {
    id: "shop",
    mixAt: (rate) => {
      const parts = Object.entries(shop).map(([name, share]) =>
        shopOperations[name as Part].mixOf((rate * share) / 100),
      );
      const flushes = flushesPerSecond * processesAt[rate];
      return Object.assign({ "stats: flush of 64 counters": flushes }, ...parts) as Mix;
    },
  },
  { id: "jobs", mixAt: jobsAt },
];
