import { readdirSync } from "node:fs";
import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";

const folder = new URL("../recipes/", import.meta.url);
const pages = readdirSync(folder).filter((file) => file.endsWith(".md"));

describeExamples(
  startRedis,
  pages.map((page) => new URL(page, folder)),
);
