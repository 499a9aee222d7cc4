import { expect, it } from "vitest";
import { measureSizes } from "../checks/sizes.mjs";
import { workspaces } from "../repo.mjs";

const core = workspaces().filter(({ manifest }) => manifest.name === "@kit/core");

it("measures a package with its dependencies", async () => {
  const { facts, problems } = await measureSizes(core, { "@kit/core": 1_000 });
  expect(problems).toEqual([]);
  expect(Number(/^@kit\/core ([\d.]+) of 1000 KiB$/.exec(facts[0] ?? "")?.[1])).toBeGreaterThan(0.5);
});

it("objects to a package over its budget", async () => {
  const { problems } = await measureSizes(core, { "@kit/core": 0.1 });
  expect(problems).toEqual([expect.stringMatching(/^@kit\/core [\d.]+ of 0\.1 KiB: over budget$/)]);
});

it("objects to a published package without a budget", async () => {
  expect((await measureSizes(core, {})).problems).toEqual([expect.stringContaining("@kit/core has no line")]);
});
