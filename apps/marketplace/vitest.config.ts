import { preset } from "@tooling/vitest";

export default preset({
  globalSetup: ["test/build.ts"],
  // Each file starts shops of its own and ends them when it is through.
  isolate: true,
});
