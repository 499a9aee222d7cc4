import { describeTestProgram } from "@tooling/vitest/helpers";
// The program is a test file itself.
import "../examples/testing/sign-up.js";

describeTestProgram(
  new URL("../examples/testing/sign-up.ts", import.meta.url),
  new URL("../docs/testing.md", import.meta.url),
);
