import { round, svg, text } from "./svg.mjs";

/**
 * A measured case: one bar for kit and one for each of the others. `value` undefined: there is no figure, and `shown` says why.
 * @typedef {{ title: string, unit: string, bars: readonly { who: string, value: number | undefined, shown: string }[] }} Group
 */

const width = 760;
const margin = 24;
const labels = 190;
const values = 130;
const row = 22;

/**
 * Groups of bars from zero, the longest of each group over the whole width.
 * @param {string} title
 * @param {readonly Group[]} groups
 * @param {string} note
 */
export function bars(title, groups, note) {
  const left = margin + labels;
  const most = width - margin - values - left;
  const parts = [text(margin, 34, title, { className: "title" })];
  let top = 52;
  for (const group of groups) {
    parts.push(text(margin, top + 16, group.title, { className: "strong" }));
    parts.push(text(width - margin, top + 16, group.unit, { className: "quiet", anchor: "end" }));
    top += 24;
    const longest = Math.max(...group.bars.map(({ value = 0 }) => value));
    for (const { who, value, shown } of group.bars) {
      const length = !value ? 0 : Math.max(2, round((value / longest) * most));
      parts.push(text(margin, top + 15, who, { className: who.startsWith("@kit") ? "strong" : "" }));
      if (length > 0)
        parts.push(
          `<rect class="${who.startsWith("@kit") ? "kit" : "peer"}" x="${left}" y="${top + 4}" width="${length}" height="14" rx="2"/>`,
        );
      parts.push(text(left + length + 8, top + 15, shown, { className: value === undefined ? "quiet" : "" }));
      top += row;
    }
    top += 14;
  }
  parts.push(text(margin, top + 10, note, { className: "quiet" }));
  const description = groups.map(
    (group) => `${group.title}, ${group.unit}: ${group.bars.map(({ who, shown }) => `${who} ${shown}`).join(", ")}`,
  );
  return svg(width, top + 26, `${title}. ${description.join(". ")}`, parts);
}
