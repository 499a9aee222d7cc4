import { basename } from "node:path";
import { advice, perCall } from "./advice.mjs";
import { table } from "./markdown.mjs";
import { usualOf } from "./section.mjs";

/** @typedef {import("./options.mjs").Table} Table */

/**
 * The page of all defaults, and the options without advice.
 * @param {readonly { folder: string, tables: readonly Table[] }[]} packages
 * @returns {{ text: string, problems: string[] }}
 */
export function defaultsPage(packages) {
  /** @type {string[]} */
  const problems = [];
  const used = new Set();
  const sections = packages.map(({ folder, tables }) => {
    const short = basename(folder);
    /** @type {Map<string, { row: string[], types: string[] }>} */
    const rows = new Map();
    for (const { type, options } of tables)
      for (const option of options) {
        const { name } = option;
        const key = `${short}.${name}` in advice ? `${short}.${name}` : name;
        const usual = usualOf(option);
        if (perCall.has(name) || usual === "required") continue;
        const when = advice[key];
        if (when === undefined) {
          if (option.usual !== undefined) problems.push(`advice.mjs has no advice on ${short}.${name}`);
          continue;
        }
        used.add(key);
        const found = rows.get(`${name} ${usual}`) ?? { row: [`\`${name}\``, usual, when], types: [] };
        found.types.push(`\`${type}\``);
        rows.set(`${name} ${usual}`, found);
      }
    const lines = [...rows.values()].map(({ row: [name = "", usual = "", when = ""], types }) => [
      name,
      shortened(usual),
      types.length > 2 ? `${types[0]} and ${types.length - 1} more` : types.join(", "),
      when,
    ]);
    const link = `[reference](../../packages/${short}/docs/reference.md#options)`;
    return `## \`@kit/${short}\`\n\nAll values and limits: ${link}.\n\n${table(["Option", "Default", "Of", "Change it when"], lines)}`;
  });
  problems.push(...Object.keys(advice).flatMap((key) => (used.has(key) ? [] : [`advice.mjs: no option is "${key}"`])));
  const head = [
    "# Defaults",
    "This page lists every setting that has a default, and when to change it. Times are in milliseconds. See also the options of [`@kit/testing`](../../packages/testing/README.md) and [`@kit/cli`](../../packages/cli/README.md).",
    "This page is made from the code by `npm run reference`.",
  ];
  return { text: [...head, ...sections].join("\n\n"), problems: [...new Set(problems)] };
}

/** A default that fits a cell. @param {string} usual */
const shortened = (usual) => {
  const line = usual.replace(/\s+/g, " ");
  return line.startsWith("{") ? `\`${line}\`` : line.replace(/[:;.] .*$/, "");
};
