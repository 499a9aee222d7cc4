import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";

describeExamples(
  startRedis,
  ["README.md", "docs/limits.md"].map((page) => new URL(`../${page}`, import.meta.url)),
);
