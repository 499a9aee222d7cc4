// One SVG per entry: bars of the medians, whiskers from the best to the worst round. Readable on light and dark pages,
// and by itself: it carries unit, direction, settings, versions and the date.
import { type EntryReport, type Figure, type Report, short } from "./report.js";
import type { Spread } from "./statistics.js";

const width = 920;
const margin = 24;
const labelWidth = 270;
/** The widest that a digit of bold text may be, in any of the fonts. */
const digitWidth = 8;
const rowHeight = 26;
const barHeight = 14;
/** Beyond this ratio between bars the short ones could not be seen. */
const linearLimit = 30;
/** The length of a line of small text. */
const lineLength = 132;

const style = `
  .page { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
  .title { font-size: 17px; font-weight: 600 } .quiet { fill: #59636e; font-size: 12px } .value { font-variant-numeric: tabular-nums }
  .kit { fill: #1a7f37 } .peer { fill: #8b949e } .floor { fill: #0969da } .ours { font-weight: 600 }
  .whisker { stroke: #1f2328; stroke-width: 1.2 } .axis { stroke: #d1d9e0; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #f0f6fc } .quiet { fill: #9198a1 } .kit { fill: #3fb950 } .peer { fill: #6e7681 }
    .floor { fill: #4493f8 } .whisker { stroke: #f0f6fc } .axis { stroke: #3d444d }
  }`;

const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[char] ?? char);

const text = (x: number, y: number, content: string, className = ""): string =>
  `<text x="${String(x)}" y="${String(y)}"${className ? ` class="${className}"` : ""}>${escaped(content)}</text>`;

/** Breaks at spaces; what continues is indented. */
const wrapped = (line: string): string[] => {
  const lines: string[] = [];
  let current = "";
  for (const word of line.split(" ")) {
    if (current.length + word.length + 1 > lineLength && current !== "") {
      lines.push(current);
      current = `    ${word}`;
    } else current = current === "" ? word : `${current} ${word}`;
  }
  return [...lines, current];
};

/** Three digits, as every text that gives a figure. */
const threeDigits = (value: number, round: (steps: number) => number): string => {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 2);
  // Without the noise of binary fractions, which would be rounded up.
  const steps = Number((value / unit).toFixed(6));
  return (round(steps) * unit).toLocaleString("en-GB", { maximumSignificantDigits: 3 });
};

/** The peers without those settings that measured the same: `x defaults` stands for a run of `x` where both are one. */
const distinct = (peers: EntryReport["peers"]): [string, Figure][] => {
  const rows = Object.entries(peers);
  const plain = (who: string): string => who.replace(/ defaults$/, "");
  return rows.filter(
    ([who, figure], index) =>
      !rows
        .slice(0, index)
        .some(([other, same]) => plain(other) === plain(who) && JSON.stringify(same) === JSON.stringify(figure)),
  );
};

/** A place on the axis for a value: 0 to 1. Logarithmic where the bars differ too much. */
const axis = (values: readonly number[]): { readonly isLog: boolean; readonly at: (value: number) => number } => {
  const positive = values.filter((value) => value > 0);
  const most = Math.max(...positive, 1e-9);
  const least = Math.min(...positive, most);
  if (most / least <= linearLimit) return { isLog: false, at: (value) => Math.max(0, value) / most };
  const from = 10 ** Math.floor(Math.log10(least) - 0.3);
  const decades = Math.log10(most / from);
  return { isLog: true, at: (value) => (value <= from ? 0 : Math.log10(value / from) / decades) };
};

export const plot = (entry: EntryReport, report: Report): string => {
  const rows: [string, Figure][] = [
    ["kit", entry.kit],
    ...distinct(entry.peers),
    ...(entry.floor ? [["floor", entry.floor] as [string, Figure]] : []),
  ];
  const { isLog, at } = axis(rows.flatMap(([, figure]) => ("max" in figure ? [figure.median, figure.max] : [])));
  // Medians are rounded against us, and a range outwards: it holds its median.
  const rangeOf = (who: string, { median, min, max }: Spread): string => {
    const isUp = (entry.better === "higher") === (who !== "kit");
    return `${threeDigits(median, isUp ? Math.ceil : Math.floor)}  [${threeDigits(min, Math.floor)} – ${threeDigits(max, Math.ceil)}]`;
  };
  const ranges = rows.flatMap(([who, figure]) => ("median" in figure ? [rangeOf(who, figure)] : []));
  const valueWidth = 8 + digitWidth * Math.max(0, ...ranges.map(({ length }) => length));
  const plotWidth = width - 2 * margin - labelWidth - valueWidth;
  const left = margin + labelWidth;
  const direction = entry.better === "higher" ? "more is better" : "less is better";
  const head = [
    ...wrapped(
      `${entry.unit}, ${direction}${isLog ? ", logarithmic" : ""}. Median of ${String(entry.rounds)} rounds, least and most.`,
    ),
    ...wrapped(`${entry.about}.`),
  ];
  const top = margin + 20 + head.length * 17 + 14;
  const bars = rows.map(([who, figure], index) => {
    const y = top + index * rowHeight;
    const middle = y + rowHeight / 2;
    const baseline = middle + 4.5;
    const label = text(margin, baseline, who, who === "kit" ? "ours" : "");
    if (!("median" in figure)) return label + text(left + 6, baseline, `– ${figure.error.slice(0, 70)}`, "quiet");
    const x = (value: number): number => Math.round((left + at(value) * plotWidth) * 10) / 10;
    const kind = who === "kit" || who === "floor" ? who : "peer";
    return [
      label,
      `<rect class="${kind}" x="${String(left)}" y="${String(middle - barHeight / 2)}" width="${String(Math.max(1, x(figure.median) - left))}" height="${String(barHeight)}" rx="2"/>`,
      `<path class="whisker" d="M${String(x(figure.min))} ${String(middle)}H${String(x(figure.max))}"/>`,
      text(
        Math.max(x(figure.max), x(figure.median)) + 8,
        baseline,
        rangeOf(who, figure),
        who === "kit" ? "value ours" : "value",
      ),
    ].join("");
  });
  const bottom = top + rows.length * rowHeight;
  const { machine, redis, node, date } = entry.run ?? report;
  const shown = new Set(rows.map(([who]) => who));
  const notes = [
    ...Object.entries(entry.settings)
      .filter(([who]) => who === "kit" || who === "floor" || shown.has(who))
      .map(([who, settings]) => `${who}: ${settings}`),
    `${redis}, Node ${node}, ${String(machine.cores)} × ${machine.cpu}, load ${short(machine.loadBefore)} before the run, ${date.slice(0, 10)}`,
  ].flatMap(wrapped);
  const height = bottom + 22 + notes.length * 16 + margin / 2;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${String(width)} ${String(height)}" width="${String(width)}" height="${String(height)}" role="img">`,
    `<title>${escaped(`${entry.case}: ${entry.unit}, ${direction}`)}</title>`,
    `<style>${style}\n</style>`,
    `<rect class="page" width="100%" height="100%"/>`,
    text(margin, margin + 12, entry.case, "title"),
    ...head.map((line, index) => text(margin, margin + 36 + index * 17, line, "quiet")),
    `<path class="axis" d="M${String(left)} ${String(top - 4)}V${String(bottom + 4)}"/>`,
    ...bars,
    ...notes.map((line, index) => text(margin, bottom + 26 + index * 16, line, "quiet")),
    "</svg>",
    "",
  ].join("\n");
};
