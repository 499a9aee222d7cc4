import { availableParallelism } from "node:os";
import { preset } from "@tooling/vitest";

export default preset({
  globalSetup: ["test/build.ts"],
  // Each file starts shops of its own and ends them when it is through.
  isolate: true,
  // These wait for the processor: shops and browsers beside each other only make each other late.
  maxWorkers: Math.min(3, availableParallelism()),
});
