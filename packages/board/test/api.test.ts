import { createRequire } from "node:module";
import * as built from "@kit/board";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { assets } from "../src/assets/index.js";
import * as source from "../src/index.js";

const surface = ["createBoard"];

describe("@kit/board", () => {
  it("exports these names and no others, even when it is built", () => {
    const required = createRequire(import.meta.url)("@kit/board") as object;
    for (const exported of [source, built, required]) expect(Object.keys(exported).sort()).toEqual(surface);
  });

  it("sends a browser at most 60 KiB, gzipped", () => {
    const sizes = Object.values(assets).map(({ body }) => gzipSync(body).length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(60 * 1_024);
  });
});
