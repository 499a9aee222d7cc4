import { expect, it } from "vitest";
import { commitProblems } from "../checks/commits.mjs";
import { commit } from "../release/copy.mjs";
import { childEnv } from "../repo.mjs";
import { tempFolder, writeFiles } from "./temp.js";

const env = childEnv();
const rule = "tooling/bootstrap/checks/commits.mjs";

it("names commits with a long subject or without a body, from the commit that brought the rule on", async () => {
  const folder = tempFolder();
  const add = async (file: string, message: string): Promise<void> => {
    writeFiles(folder, { [file]: message });
    await commit(folder, env, message);
  };
  await add("a", "before the rule");
  await add(rule, "the rule");
  expect(await commitProblems(env, folder)).toEqual({ checked: 0, problems: [] });
  await add("b", "lock: a fault\n\nIt was seen.");
  expect(await commitProblems(env, folder)).toEqual({ checked: 1, problems: [] });
  await add("c", "lock: no reason");
  const long = `lock: ${"x".repeat(67)}`;
  await add("d", `${long}\n\nIt was seen.`);
  expect(await commitProblems(env, folder)).toEqual({
    checked: 3,
    problems: [
      expect.stringMatching(`^[0-9a-f]+: the subject has 73 characters, at most 72: ${long}$`),
      expect.stringMatching(/^[0-9a-f]+: no body says why: lock: no reason$/),
    ],
  });
});

it("asks for nothing where there is no history", async () => {
  expect(await commitProblems(env, tempFolder())).toEqual({ checked: 0, problems: [] });
});
