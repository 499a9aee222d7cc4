import { availableParallelism } from "node:os";
import { preset } from "@tooling/vitest";

export default preset({
  globalSetup: ["test/build.ts"],
  setupFiles: ["test/setup.ts"],
  // Whole shops and browsers need more of the processor than the tests of a package.
  maxWorkers: Math.min(3, availableParallelism() + 1),
});
