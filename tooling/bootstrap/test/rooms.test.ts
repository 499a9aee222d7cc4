import { expect, it } from "vitest";
import { circlesOf } from "../checks/rooms.mjs";
import { tempFolder, writeFiles } from "./temp.js";

it("names the imports by which folders of a workspace import each other", () => {
  const src = tempFolder();
  writeFiles(src, {
    "index.ts": 'export { work } from "./work/worker.js";\n',
    "work/worker.ts": 'import { keys } from "../keys.js";\nimport { Lease } from "./lease.js";\n',
    "work/lease.ts": 'import type { Worker } from "./worker.js";\n',
    "keys.ts": 'import { Redis } from "ioredis";\n',
  });
  expect(circlesOf(src)).toEqual([]);
  writeFiles(src, { "keys.ts": 'import type { Take } from "./take/take.js";\n', "take/take.ts": "" });
  expect(circlesOf(src)).toEqual([]);
  writeFiles(src, { "take/take.ts": 'const lease = await import("../work/lease.js");\n' });
  expect(circlesOf(src)).toEqual(["work/worker.ts -> keys.ts, keys.ts -> take/take.ts, take/take.ts -> work/lease.ts"]);
});
