import { round, svg, text } from "./svg.mjs";

/**
 * A box of a diagram. `is`: its colour: a process, something in Redis, something of kit, or none of these; `words` is text alone.
 * @typedef {{ at: readonly [x: number, y: number], size?: readonly [width: number, height: number], lines: readonly string[],
 *   is?: "box" | "process" | "redis" | "ours" | "frame" | "words" }} Box
 * @typedef {"left" | "right" | "top" | "bottom"} Side
 * An arrow from a side of a box to a side of another. `shift` moves both ends along their sides, `label` stands beside its longest part.
 * @typedef {{ from: readonly [box: string, side: Side], to: readonly [box: string, side: Side], label?: string, shift?: readonly [number, number],
 *   labelAt?: readonly [dx: number, dy: number] }} Arrow
 * @typedef {{ title: string, size: readonly [width: number, height: number], boxes: Readonly<Record<string, Box>>, arrows: readonly Arrow[] }} Diagram
 */

/** @param {Diagram} diagram */
export function diagram({ title, size: [width, height], boxes, arrows }) {
  const all = Object.entries(boxes);
  const frames = all.filter(([, { is }]) => is === "frame");
  const others = all.filter(([, { is }]) => is !== "frame");
  const said = others.map(([, { lines }]) => lines.join(" ")).join("; ");
  return svg(width, height, `${title}: ${said}`, [
    `<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>`,
    text(24, 34, title, { className: "title" }),
    ...frames.map(([, box]) => drawn(box)),
    ...others.map(([, box]) => drawn(box)),
    ...arrows.map((arrow) => arrowOf(arrow, boxes)),
  ]);
}

const lineHeight = 17;

/** @param {Box} box */
function drawn({ at: [x, y], size: [width, height] = [0, 0], lines, is = "box" }) {
  if (is === "words")
    return lines.map((line, index) => text(x, y + index * lineHeight, line, { className: "quiet" })).join("\n");
  const rect = `<rect class="box ${is}" x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>`;
  if (is === "frame") return [rect, text(x + 10, y + 18, lines.join(" "), { className: "quiet" })].join("\n");
  const first = y + height / 2 - ((lines.length - 1) * lineHeight) / 2 + 4.5;
  const words = lines.map((line, index) =>
    text(x + width / 2, first + index * lineHeight, line, {
      anchor: "middle",
      className: index === 0 ? "strong" : "quiet",
    }),
  );
  return [rect, ...words].join("\n");
}

/** @param {Arrow} arrow @param {Readonly<Record<string, Box>>} boxes */
function arrowOf({ from, to, label, shift = [0, 0], labelAt = [0, 0] }, boxes) {
  const points = route(end(from, boxes, shift[0]), end(to, boxes, shift[1]));
  const path = points.map(([x, y], index) => `${index === 0 ? "M" : "L"}${round(x)} ${round(y)}`).join("");
  const line = `<path class="line" marker-end="url(#head)" d="${path}"/>`;
  if (label === undefined) return line;
  const [[x1, y1], [x2, y2]] = longest(points);
  const isLevel = y1 === y2;
  const x = (x1 + x2) / 2 + (isLevel ? 0 : 7) + labelAt[0];
  const y = (y1 + y2) / 2 + (isLevel ? -7 : 4) + labelAt[1];
  return [line, text(x, y, label, { className: "quiet", anchor: isLevel ? "middle" : "start" })].join("\n");
}

/** @typedef {readonly [x: number, y: number]} Point */
/** @typedef {{ point: Point, isLevel: boolean }} End */

/** @param {readonly [string, Side]} place @param {Readonly<Record<string, Box>>} boxes @param {number} shift @returns {End} */
function end([name, side], boxes, shift) {
  const box = boxes[name];
  if (box?.size === undefined) throw new Error(`An arrow ends at "${name}", which is no box`);
  const [x, y] = box.at;
  const [width, height] = box.size;
  const isLevel = side === "left" || side === "right";
  /** @type {Point} */
  const point = isLevel
    ? [side === "left" ? x : x + width, y + height / 2 + shift]
    : [x + width / 2 + shift, side === "top" ? y : y + height];
  return { point, isLevel };
}

/** Straight where it can be, else with one corner or two. @param {End} from @param {End} to @returns {Point[]} */
function route({ point: a, isLevel: leavesLevel }, { point: b, isLevel: arrivesLevel }) {
  if (a[0] === b[0] || a[1] === b[1]) return [a, b];
  if (leavesLevel && arrivesLevel) return [a, [(a[0] + b[0]) / 2, a[1]], [(a[0] + b[0]) / 2, b[1]], b];
  if (!leavesLevel && !arrivesLevel) return [a, [a[0], (a[1] + b[1]) / 2], [b[0], (a[1] + b[1]) / 2], b];
  return [a, leavesLevel ? [b[0], a[1]] : [a[0], b[1]], b];
}

/** @param {readonly Point[]} points @returns {readonly [Point, Point]} */
function longest(points) {
  const parts = points.slice(1).map((point, index) => /** @type {const} */ ([points[index] ?? point, point]));
  const length = (/** @type {readonly [Point, Point]} */ [a, b]) => Math.hypot(b[0] - a[0], b[1] - a[1]);
  return parts.reduce((best, part) => (length(part) > length(best) ? part : best));
}
