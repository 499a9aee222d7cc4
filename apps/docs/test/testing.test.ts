import { describeTestProgram } from "@tooling/vitest/helpers";
// The program is a test file itself.
import "./testing/nightly.js";

describeTestProgram(
  new URL("testing/nightly.ts", import.meta.url),
  new URL("../testing-your-code.md", import.meta.url),
);
