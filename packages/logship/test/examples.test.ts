import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";

describeExamples(
  startRedis,
  ["../README.md", "../docs/channels.md", "../docs/files.md", "../docs/results.md"].map(
    (page) => new URL(page, import.meta.url),
  ),
);
