import { startRedis } from "@kit/testing";
import { describeMigration } from "@tooling/vitest/helpers";
import { describe } from "vitest";

const pages = ["bee-queue", "bottleneck", "prom-client", "rate-limiter-flexible", "home-made"];

describe.each(pages)("from %s", (page) => {
  const programs = new URL(`migration/${page}/`, import.meta.url);
  describeMigration(startRedis, new URL(`../migration/${page}.md`, import.meta.url), programs);
});
