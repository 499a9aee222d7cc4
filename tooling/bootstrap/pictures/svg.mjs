// The common part of all drawings: one palette for light and dark pages, and fonts that every system has.

/** @typedef {{ className?: string, anchor?: "start" | "middle" | "end" }} TextStyle */

const style = `
  .page { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
  .title { font-size: 16px; font-weight: 600 } .strong { font-weight: 600 } .quiet { fill: #59636e; font-size: 12px }
  .mono { font: 13px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace } .mono.strong { font-weight: 600 }
  .kit { fill: #1a7f37 } .peer { fill: #8b949e } .line { stroke: #59636e; stroke-width: 1.4; fill: none } .head { fill: #59636e }
  .box { fill: #f6f8fa; stroke: #8b949e; stroke-width: 1.2 } .process { fill: #ddf4ff; stroke: #0969da } .redis { fill: #ffebe9; stroke: #cf222e }
  .ours { fill: #dafbe1; stroke: #1a7f37 } .frame { fill: none; stroke: #8b949e; stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #f0f6fc } .quiet { fill: #9198a1 } .kit { fill: #3fb950 } .peer { fill: #6e7681 }
    .line { stroke: #9198a1 } .head { fill: #9198a1 } .box { fill: #151b23; stroke: #6e7681 } .process { fill: #10233d; stroke: #4493f8 }
    .redis { fill: #33171a; stroke: #f85149 } .ours { fill: #12291b; stroke: #3fb950 } .frame { fill: none; stroke: #6e7681 }
  }`;

/** @param {string} text */
const escaped = (text) =>
  text.replace(/[&<>"]/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[char] ?? char);

/** @param {number} x @param {number} y The baseline. @param {string} content @param {TextStyle} [how] */
export const text = (x, y, content, { className = "", anchor = "start" } = {}) =>
  [
    `<text x="${round(x)}" y="${round(y)}"`,
    className && ` class="${className}"`,
    anchor !== "start" && ` text-anchor="${anchor}"`,
    ` xml:space="preserve">${escaped(content)}</text>`,
  ]
    .filter(Boolean)
    .join("");

/** @param {number} value */
export const round = (value) => Math.round(value * 10) / 10;

/**
 * A whole picture.
 * @param {number} width
 * @param {number} height
 * @param {string} description Read by screen readers.
 * @param {readonly string[]} parts
 */
export const svg = (width, height, description, parts) =>
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escaped(description)}</title>`,
    `<style>${style}\n</style>`,
    `<rect class="page" width="100%" height="100%" rx="6"/>`,
    ...parts,
    "</svg>",
    "",
  ].join("\n");
