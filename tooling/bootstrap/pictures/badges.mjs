import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readManifest, root } from "../repo.mjs";
import { svg, text } from "./svg.mjs";

const character = 7;

/** Facts about the whole repository, by its own files. @returns {Map<string, string>} */
export function badges() {
  const { license = "" } = /** @type {any} */ (readManifest(root));
  return new Map(
    Object.entries({
      licence: ["licence", license],
      servers: ["tested on", testedServers()],
    }).map(([name, [label = "", value = ""]]) => [name, badge(label, value)]),
  );
}

/** The servers on which all suites or a part of each ran, as the page says it. */
function testedServers() {
  const page = readFileSync(join(root, "apps/docs/where-it-runs.md"), "utf8");
  const rows = page.matchAll(/^\| (Redis|Valkey) (\d+\.\d+)\S*[^|]*\| tested /gm);
  return [...rows].map(([, name, version]) => `${name} ${version}`).join(", ");
}

/** @param {string} label @param {string} value */
function badge(label, value) {
  const middle = 16 + label.length * character;
  const width = Math.ceil(middle + 12 + value.length * character);
  return svg(width, 24, `${label}: ${value}`, [
    `<rect class="box" x="0.6" y="0.6" width="${width - 1.2}" height="22.8" rx="6"/>`,
    text(8, 16.5, label, { className: "quiet" }),
    text(middle, 16.5, value, { className: "strong" }),
  ]);
}
