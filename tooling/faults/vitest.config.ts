import { preset } from "@tooling/vitest";

// One file after the other: their servers and workers need the machine for themselves.
export default preset({
  fileParallelism: false,
  // The campaign has a patience of its own.
  isolate: true,
});
