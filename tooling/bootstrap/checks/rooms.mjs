import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { root as repository, workspaces } from "../repo.mjs";

const importing = /(?:\bfrom|\bimport)\s*\(?\s*["'](\.[^"']+)["']/g;

/** A room is a folder in `src`, or a file that lies there. @param {string} path */
const roomOf = (path) => path.split("/")[0] ?? path;

/**
 * The imports between rooms of one workspace: for each room the rooms it imports, each with one import as an example.
 *
 * @param {string} src
 * @returns {Map<string, Map<string, string>>}
 */
function importsBetween(src) {
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) => /\.m?ts$/.test(path));
  /** @type {Map<string, Map<string, string>>} */
  const rooms = new Map(files.map((path) => [roomOf(path), new Map()]));
  for (const path of files)
    for (const [, specifier = ""] of readFileSync(join(src, path), "utf8").matchAll(importing)) {
      const target = relative(src, resolve(src, dirname(path), specifier)).replace(/\.(m?)js$/, ".$1ts");
      const [from, to] = [roomOf(path), roomOf(target)];
      if (from !== to && rooms.has(to)) rooms.get(from)?.set(to, `${path} -> ${target}`);
    }
  return rooms;
}

/**
 * Rooms of a workspace that import each other in a circle: then none of them can be read, or moved, alone.
 *
 * @param {string} src
 * @returns {string[]} the imports of each circle
 */
export function circlesOf(src) {
  const rooms = importsBetween(src);
  /** @type {Set<string>} */
  const finished = new Set();
  /** @type {string[]} */
  const circles = [];
  /** @param {string} room @param {readonly string[]} path */
  const visit = (room, path) => {
    const start = path.indexOf(room);
    if (start >= 0) {
      const circle = [...path.slice(start), room];
      const imports = circle.slice(1).map((to, at) => rooms.get(circle[at] ?? "")?.get(to) ?? "");
      circles.push(imports.join(", "));
    } else if (!finished.has(room)) {
      for (const to of rooms.get(room)?.keys() ?? []) visit(to, [...path, room]);
      finished.add(room);
    }
  };
  for (const room of rooms.keys()) visit(room, []);
  return circles;
}

/** @param {string} [root] */
export function roomProblems(root = repository) {
  return workspaces(root)
    .map(({ folder }) => join(folder, "src"))
    .filter((src) => statSync(src, { throwIfNoEntry: false })?.isDirectory())
    .flatMap((src) => circlesOf(src).map((circle) => `${relative(root, src)}: these import each other: ${circle}`));
}
