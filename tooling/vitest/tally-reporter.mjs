import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";

/**
 * A vitest reporter that writes what `npm test` adds up: `test-results/<name>.json` in the workspace. A file that does
 * not load, a hook that fails and an error outside any test count as a failure each.
 */
export function tallyReporter(name) {
  let root = process.cwd();
  return {
    onInit(vitest) {
      root = vitest.config.root;
    },
    onTestRunEnd(modules, unhandledErrors, reason) {
      const tests = modules.flatMap((module) => [...module.children.allTests()]);
      const inState = (wanted) => tests.filter((test) => test.result().state === wanted);
      const failures = [
        ...inState("failed").map((test) => `${fileOf(test.module)} > ${test.fullName}${why(test.result().errors)}`),
        ...modules.flatMap((module) => brokenParts(module).map((part) => `${fileOf(module)}${part}`)),
        ...unhandledErrors.map((error) => `unhandled: ${error.message}`),
        ...(reason === "interrupted" ? ["the run was interrupted"] : []),
        ...(tests.length === 0 ? ["no test was found"] : []),
      ];
      const unfinished = inState("pending").length;
      if (unfinished > 0) failures.push(`${unfinished} tests did not end`);
      const result = {
        passed: inState("passed").length,
        failed: failures.length,
        skipped: inState("skipped").length,
        failures,
      };
      const folder = join(root, "test-results");
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
    },
  };

  function fileOf(module) {
    const file = relative(root, module.moduleId);
    return module.project.name === "" ? file : `[${module.project.name}] ${file}`;
  }
}

/** The beginning of the first error of a test or a hook, and the last line of our code that it passed: the end of a log must do. */
const why = ([error]) => {
  if (!error) return "";
  const place = error.stacks?.find(({ file }) => !file.includes("node_modules"));
  const line = place ? ` (${place.file.split("/").at(-1)}:${place.line})` : "";
  return `\n    ${error.message.replace(/\s+/g, " ").slice(0, 300)}${line}`;
};

/** Modules and suites with an error of their own: a failed import or hook. */
const brokenParts = (module) => [
  ...(module.errors().length > 0 ? [why(module.errors())] : []),
  ...[...module.children.allSuites()]
    .filter((suite) => suite.errors().length > 0)
    .map((suite) => ` > ${suite.fullName}: a hook failed${why(suite.errors())}`),
];
