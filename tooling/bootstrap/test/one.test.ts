import { expect, it } from "vitest";
import { choice } from "../one.mjs";
import { tempFolder, writeFiles } from "./temp.js";

it.each([
  [[], []],
  [["acl"], ["test/acl.test.ts"]],
  [
    ["mailbox", "on", "a", "Cluster"],
    ["test/mailbox-behaviour.test.ts", "-t", "on a Cluster"],
  ],
  [["test/acl.test.ts"], ["test/acl.test.ts"]],
  [
    ["hands", "over"],
    ["-t", "hands over"],
  ],
])("npm run one takes %j as a file, or as a part of names", (words, args) => {
  const folder = tempFolder();
  writeFiles(folder, { "test/acl.test.ts": "", "test/mailbox-behaviour.test.ts": "" });
  expect(choice(folder, words)).toEqual(args);
});
