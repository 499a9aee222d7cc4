// Seeds the counters with ninety days of made-up sales and page views, so that the charts are not empty at first. The
// figures vary by hour and by weekday.
import type { Counter } from "@kit/stats";
import { random } from "./random.js";
import type { ShopStats } from "../common/tools.js";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const days = 90;
const salesOfHour = 420;
const viewsOfHour = 4_200;

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
    // The last term rounds at random, so that an amount below one counts now and then.
    const amount = Math.floor(mean * shape(at) * (0.75 + chance.next() / 2) + chance.next());
    if (amount > 0) counter.inc(amount, { at });
  };
  const [lastDay, lastHours] = [now - 24 * hourMs, now - 2 * hourMs];
  const fill = (from: number, to: number, stepMs: number): void => {
    for (let at = Math.ceil(from / stepMs) * stepMs; at < to - stepMs; at += stepMs) {
      put(sales, at, (salesOfHour * stepMs) / hourMs);
      put(views, at, (viewsOfHour * stepMs) / hourMs);
    }
  };
  // Each span in the finest precision that is kept for so long.
  fill(now - days * 24 * hourMs + hourMs, lastDay, hourMs);
  fill(lastDay, lastHours, minuteMs);
  fill(lastHours, now, 5_000);
  await stats.flush();
};
