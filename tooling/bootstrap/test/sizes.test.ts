import { expect, it } from "vitest";
import { measureSizes } from "../checks/sizes.mjs";
import { workspaces } from "../repo.mjs";

const core = workspaces().filter(({ manifest }) => manifest.name === "@kit/core");
const budgets = {
  "@kit/core": 1_000,
  "@kit/core/config": 1_000,
  "@kit/core/durable": 1_000,
  "@kit/core/leasing": 1_000,
  "@kit/core/otel": 1_000,
};

it("measures a package with its dependencies, each entry by itself", async () => {
  const { facts, problems } = await measureSizes(core, budgets);
  expect(problems).toEqual([]);
  const sizes = facts.map((fact) => /^(\S+) ([\d.]+) of 1000 KiB$/.exec(fact)?.slice(1) ?? []);
  expect(sizes.map(([name]) => name)).toEqual(Object.keys(budgets));
  expect(Number(sizes[0]?.[1])).toBeGreaterThan(0.5);
});

it("objects to a package over its budget", async () => {
  const { problems } = await measureSizes(core, { ...budgets, "@kit/core": 0.1 });
  expect(problems).toEqual([expect.stringMatching(/^@kit\/core [\d.]+ of 0\.1 KiB: over budget$/)]);
});

it("objects to a published package without a budget", async () => {
  const { "@kit/core": _, ...others } = budgets;
  expect((await measureSizes(core, others)).problems).toEqual([expect.stringContaining("@kit/core has no line")]);
});
