// Made-up visits from before the opening, as lines of the access log. Thirty files, one a day, have 200,000 lines in
// all.
import { addressOf } from "./countries.js";
import { random, seedOf } from "./random.js";

const dayMs = 86_400_000;
const linesOfDay = 6_700;
const linesOfBlock = 250;
const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** `10/Oct/2026:13:55:36 +0000` */
const logTime = (at: number): string => {
  const date = new Date(at);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${two(date.getUTCDate())}/${months[date.getUTCMonth()] ?? ""}/${date.getUTCFullYear()}`;
  return `${day}:${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())} +0000`;
};

export interface LogLine {
  readonly address: string;
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly bytes: number;
  readonly agent: string;
}

const quoted = (text: string): string => text.replaceAll(/[\p{Cc}"\\]/gu, "_");

/** One line in the combined log format. */
export const logLine = ({ address, at, method, path, status, bytes, agent }: LogLine): string =>
  `${address} - - [${logTime(at)}] "${quoted(method)} ${quoted(path)} HTTP/1.1" ${status} ${bytes} "-" "${quoted(agent)}"\n`;

/** The last days before today, oldest first: `2026-10-24`. */
export const historyDays = (now: number, days: number): string[] => {
  const today = Math.floor(now / dayMs) * dayMs;
  return Array.from({ length: days }, (_, index) =>
    new Date(today - (days - index) * dayMs).toISOString().slice(0, 10),
  );
};

/** The log of one day in blocks of whole lines; the same for the same day and name. */
export const historyFile = (day: string, lines: number = linesOfDay, name: string = day): string[] => {
  const chance = random(seedOf(name));
  const start = Date.parse(`${day}T00:00:00Z`);
  const isWeekend = [0, 6].includes(new Date(start).getUTCDay());
  const count = lines === linesOfDay ? Math.round(lines * (isWeekend ? 1.25 : 0.9)) : lines;
  const blocks: string[] = [];
  let block = "";
  for (let line = 1; line <= count; line++) {
    const status = chance.next() < 0.94 ? 200 : chance.pick([303, 404, 404, 409, 503]);
    block += logLine({
      address: addressOf(`visitor ${chance.between(1, 4_000)}`),
      at: start + Math.floor((line / (count + 1)) * dayMs),
      method: chance.next() < 0.9 ? "GET" : "POST",
      path: chance.next() < 0.4 ? "/" : `/item/i${chance.between(1, 1_200)}`,
      status,
      bytes: chance.between(2_000, 30_000),
      agent: "a visitor",
    });
    if (line % linesOfBlock === 0 || line === count) {
      blocks.push(block);
      block = "";
    }
  }
  return blocks;
};
