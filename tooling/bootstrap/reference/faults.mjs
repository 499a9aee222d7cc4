import { grouped, table } from "./markdown.mjs";

/**
 * @typedef {{ date: string, command: string, redis: string, client: string, operations: number, violations: number,
 *   faults: Record<string, number>, invariants: { name: string, checked: number }[],
 *   controls: { name: string, caught: boolean }[], failures: string[] }} Run
 */

/**
 * The page of the kept fault runs.
 * @param {Readonly<Record<string, Run>>} runs By package.
 */
export function faultsPage(runs) {
  const kindsOf = (/** @type {Run} */ { faults }) => Object.entries(faults).filter(([, count]) => count > 0);
  const rows = Object.entries(runs).map(([name, run]) => [
    `[${name}](#${name})`,
    grouped(run.operations),
    String(kindsOf(run).length),
    grouped(kindsOf(run).reduce((sum, [, count]) => sum + count, 0)),
    String(run.violations),
    `${run.controls.filter(({ caught }) => caught).length} of ${run.controls.length}`,
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
