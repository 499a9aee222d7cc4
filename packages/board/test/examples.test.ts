import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";

describeExamples(startRedis, [
  new URL("../README.md", import.meta.url),
  new URL("../docs/frameworks.md", import.meta.url),
]);
