import { describeTestProgram } from "@tooling/vitest/helpers";
// The examples are test files themselves.
import "../examples/basket.js";
import "../examples/shop.js";

describeTestProgram(new URL("../examples/shop.ts", import.meta.url), new URL("../README.md", import.meta.url));
