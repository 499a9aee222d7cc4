import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";

describeExamples(
  startRedis,
  ["../README.md", "../docs/mmdb.md", "../docs/vendors.md"].map((page) => new URL(page, import.meta.url)),
);
