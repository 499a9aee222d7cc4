import { readdirSync } from "node:fs";
import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";

const readme = new URL("../README.md", import.meta.url);
const docs = new URL("../docs/", import.meta.url);
const pages = readdirSync(docs).map((page) => new URL(page, docs));

describeExamples(startRedis, [readme, ...pages]);
