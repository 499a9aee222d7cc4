import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";

describeExamples(
  startRedis,
  ["README.md", "docs/operations.md", "docs/read-write.md"].map((page) => new URL(`../${page}`, import.meta.url)),
);
