import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { root } from "../repo.mjs";
import { linksOf, markdownFiles } from "./links.mjs";

/**
 * @typedef {{ median?: number }} Figure
 * @typedef {{ case: string, unit: string, better: "higher" | "lower", kit: Figure, peers: Record<string, Figure>, floor: Figure | null }} Case
 */

/**
 * The figures in documents that differ from the kept ones. Every number in the words of a link to the chart of a case,
 * `[240,000 against 43,200](apps/docs/bench/queue/process-c-100.svg)`, must be one of that case's medians, and `5.5 ×` the ratio of two.
 * It is rounded to three digits, as in the charts, and against us: ours to the worse side, a peer's to the better.
 * @param {string} [folder]
 */
export function wrongFigures(folder = root) {
  return markdownFiles(folder).flatMap((file) => {
    const text = readFileSync(file, "utf8");
    return linksOf(text).flatMap(({ target, line, words }) => {
      const found = caseOf(resolve(dirname(file), target), folder);
      if (found === undefined) return [];
      const wrong = numbersOf(words).filter((number) => !isOf(found, number));
      return wrong.map(({ text: number }) => `${relative(folder, file)}:${line}: ${number} is no figure of ${target}`);
    });
  });
}

/**
 * The numbers of a title that its case does not have: a chart once called a case of 16 callers one of 64.
 * @param {string} title
 * @param {{ case: string, about: string }} shown
 */
export function foreignNumbers(title, { case: name, about }) {
  const numbers = (/** @type {string} */ text) =>
    text.replace(/(?<=\d),(?=\d{3})/g, "").match(/(?<![\w.-])\d+(?:\.\d+)?/g) ?? [];
  const known = new Set([...numbers(name.replace(/\d+x\d+/, "")), ...numbers(about)]);
  return numbers(title).filter((number) => !known.has(number));
}

/** A file name for a case, as the bench makes it. @param {string} name */
export const slug = (name) =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");

/** @param {string} chart @param {string} folder @returns {Case | undefined} */
function caseOf(chart, folder) {
  const [, name = "", title] = /^apps\/docs\/bench\/(\w+)\/(.+)\.svg$/.exec(relative(folder, chart)) ?? [];
  const data = join(folder, "apps/docs/bench", `${name}.json`);
  if (title === undefined || !existsSync(data)) return undefined;
  /** @type {{ cases: Case[] }} */
  const { cases } = JSON.parse(readFileSync(data, "utf8"));
  return cases.find((one) => slug(one.case) === title);
}

/** @typedef {{ text: string, value: number, unit: string | undefined }} Shown */

/** @param {string} words @returns {Shown[]} */
const numbersOf = (words) =>
  [...words.matchAll(/(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?:\s+(×|s|million)(?!\w))?/g)].map(([, text = "", unit]) => ({
    text,
    value: Number(text.replaceAll(",", "")),
    unit,
  }));

/** @param {Case} found @param {Shown} shown */
function isOf({ unit, better, kit, peers, floor }, { value, unit: shownUnit }) {
  const ours = kit.median;
  const others = [...Object.values(peers), floor ?? {}].flatMap(({ median }) => (median === undefined ? [] : [median]));
  if (ours === undefined) return false;
  const isMore = better === "higher";
  if (shownUnit === "×") return others.some((one) => isRounded(isMore ? ours / one : one / ours, value, "down"));
  const isSeconds = shownUnit === "s" && unit.startsWith("ms");
  const scaled = shownUnit === "million" ? value * 1_000_000 : isSeconds ? value * 1_000 : value;
  return (
    isRounded(ours, scaled, isMore ? "down" : "up") ||
    others.some((one) => isRounded(one, scaled, isMore ? "up" : "down"))
  );
}

/** @param {number} exact @param {number} shown @param {"up" | "down"} direction */
function isRounded(exact, shown, direction) {
  if (exact === 0) return shown === 0;
  const unit = 10 ** (Math.floor(Math.log10(exact)) - 2);
  // Without the noise of binary fractions, which would be rounded up.
  const steps = Number((exact / unit).toFixed(6));
  const rounded = (direction === "up" ? Math.ceil(steps) : Math.floor(steps)) * unit;
  return Math.abs(rounded - shown) < unit / 1_000;
}
