import { grouped, table } from "./markdown.mjs";

/**
 * @typedef {{ date: string, command: string, redis: string, client: string, operations: number, violations: number,
 *   faults: Record<string, number>, invariants: { name: string, checked: number }[],
 *   controls: { name: string, caught: boolean }[], failures: string[] }} Run
 */

/** @param {Run} run */
const kindsOf = ({ faults }) => Object.entries(faults).filter(([, count]) => count > 0);

/** @param {Run} run */
const sumOf = (run) => grouped(kindsOf(run).reduce((sum, [, count]) => sum + count, 0));

/** @param {Run} run */
const bugsOf = ({ controls }) => `${controls.filter(({ caught }) => caught).length} of ${controls.length}`;

/**
 * The front page with the figures of the latest runs of its table.
 * @param {string} text
 * @param {Readonly<Record<string, Run>>} runs By package.
 */
export const withFaults = (text, runs) =>
  text.replace(/(?<=^\| Fault run .*\n\| -.*\n)(?:\| .*\n)+/m, (rows) =>
    [...rows.matchAll(/\[(\w+)\]\(.*?\)/g)]
      .flatMap(([link, name = ""]) => {
        const run = runs[name];
        if (run === undefined) return [];
        const kinds = `${sumOf(run)} (${kindsOf(run).length} kinds)`;
        return `| ${[link, grouped(run.operations), kinds, run.violations, bugsOf(run)].join(" | ")} |\n`;
      })
      .join(""),
  );

/**
 * The page of the kept fault runs.
 * @param {Readonly<Record<string, Run>>} runs By package.
 */
export function faultsPage(runs) {
  const rows = Object.entries(runs).map(([name, run]) => [
    `[${name}](#${name})`,
    grouped(run.operations),
    String(kindsOf(run).length),
    sumOf(run),
    String(run.violations),
    bugsOf(run),
    run.failures.length === 0 ? "passed" : "**failed**",
    run.date,
  ]);
  const sections = Object.entries(runs).map(([name, run]) => {
    const faults = kindsOf(run).map(([kind, count]) => [kind, grouped(count)]);
    const checked = run.invariants.map((one) => `\`${one.name}\` ${grouped(one.checked)}`).join(", ");
    const failed = run.failures.length === 0 ? "" : `\n\n**This run failed:** ${run.failures.join("; ")}.`;
    return [
      `## ${name}`,
      `\`${run.command}\`, ${run.redis}, ${run.client}.${failed}`,
      `Times that each invariant was checked: ${checked}.`,
      table(["Fault", "Times"], faults),
    ].join("\n\n");
  });
  return [
    "# Faults",
    "What happens to each package when processes are killed, replies are lost, servers fail over and slots move.",
    "A checker reads every operation of a run and looks for violations of the package's promises. Then the run repeats with deliberate bugs, which the checker must find. [How the fault runs work](../../tooling/faults/README.md).",
    "This page shows the latest kept run of each package, whether or not it passed. It is made from `apps/docs/faults.json` by `npm run reference`.",
    table(["Workload", "Operations", "Kinds of faults", "Faults", "Violations", "Bugs found", "Result", "Date"], rows),
    ...sections,
  ].join("\n\n");
}
