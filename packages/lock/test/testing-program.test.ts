import { describeTestProgram } from "@tooling/vitest/helpers";
// The program is a test file itself.
import "../examples/testing/report.js";

describeTestProgram(
  new URL("../examples/testing/report.ts", import.meta.url),
  new URL("../docs/testing.md", import.meta.url),
);
