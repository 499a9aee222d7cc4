import { preset } from "@tooling/vitest";

export default preset({
  globalSetup: ["test/build.ts"],
  setupFiles: ["test/setup.ts"],
});
