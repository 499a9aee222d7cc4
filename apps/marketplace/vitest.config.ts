import { availableParallelism } from "node:os";
import { preset } from "@tooling/vitest";

export default preset({
  globalSetup: ["test/build.ts"],
  setupFiles: ["test/setup.ts"],
  // These wait for the processor: shops and browsers beside each other only make each other late.
  maxWorkers: Math.min(3, availableParallelism()),
});
