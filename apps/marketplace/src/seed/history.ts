// Ninety days of sales and visits before the first one, with the shape of weeks and evenings, so that the charts say
// something from the start.
import type { Counter } from "@kit/stats";
import { random } from "./random.js";
import type { ShopStats } from "../tools.js";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const days = 90;

/** Few at night, most in the evening. */
const ofHour = (hour: number): number =>
  0.25 + Math.max(0, Math.sin(((hour - 7) / 17) * Math.PI)) + (hour > 18 ? 0.5 : 0);
const ofDay = (weekday: number): number => (weekday === 0 || weekday === 6 ? 1.35 : 1);

const shape = (at: number): number => {
  const date = new Date(at);
  return ofHour(date.getUTCHours()) * ofDay(date.getUTCDay());
};

/** Fills two counters up to `now`; hour by hour, and the last day minute by minute. */
export const seedHistory = async ({ stats, sales, views }: ShopStats, now: number): Promise<void> => {
  const chance = random(1_912);
  const put = (counter: Counter, at: number, mean: number): void => {
    const amount = Math.round(mean * shape(at) * (0.75 + chance.next() / 2));
    if (amount > 0) counter.inc(amount, { at });
  };
  const lastDay = now - 24 * hourMs;
  for (let at = Math.floor((now - days * 24 * hourMs) / hourMs + 1) * hourMs; at < lastDay - hourMs; at += hourMs) {
    put(sales, at, 38);
    put(views, at, 900);
  }
  for (let at = Math.floor(lastDay / minuteMs) * minuteMs; at < now - 2 * minuteMs; at += minuteMs) {
    put(sales, at, 0.9);
    put(views, at, 15);
  }
  await stats.flush();
};
