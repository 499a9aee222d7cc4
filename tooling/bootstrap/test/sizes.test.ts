import { expect, it } from "vitest";
import { measureSizes, statedWrongly } from "../checks/sizes.mjs";
import { workspaces } from "../repo.mjs";

const some = (name: string) => workspaces().filter(({ manifest }) => manifest.name === name);

it("measures a package with its dependencies, each entry by itself", async () => {
  const { facts, problems } = await measureSizes(some("@kit/core"), () => 1_000);
  expect(problems).toEqual([]);
  const sizes = facts.map((fact) => /^(\S+) ([\d.]+) of 1000 KiB$/.exec(fact)?.slice(1) ?? []);
  const names = sizes.map(([name]) => name);
  expect(names).toEqual(expect.arrayContaining(["@kit/core", "@kit/core/toolkit", "@kit/core/durable"]));
  expect(names).not.toContain("@kit/core/package.json");
  for (const [, size] of sizes) expect(Number(size)).toBeGreaterThan(0.1);
});

it("reports a package over its budget", async () => {
  const { problems } = await measureSizes(some("@kit/core"), (entry) => (entry === "@kit/core" ? 0.1 : 1_000));
  expect(problems).toEqual([expect.stringMatching(/^@kit\/core [\d.]+ of 0\.1 KiB: over budget$/)]);
});

it("has a budget for every library that a program ships, and none for programs and test tools", async () => {
  const { facts } = await measureSizes([...some("@kit/lock"), ...some("@kit/cli"), ...some("@kit/testing")]);
  expect(facts.map((fact) => fact.replace(/ .* of/, " of"))).toEqual([
    "@kit/lock of 15 KiB",
    "@kit/lock/compatible of 15 KiB",
    "@kit/lock/descriptor of 15 KiB",
    "@kit/lock/quorum of 15 KiB",
    "@kit/lock/read-write of 15 KiB",
  ]);
});

it("reports a README that gives less than the size, or far more", () => {
  const problems = (size: number) => statedWrongly("@kit/lock", "**Cost:** 8\n  KiB min+gzip", size);
  expect(problems(8)).toEqual([]);
  expect(problems(6.1)).toEqual([]);
  expect(problems(8.1)).toEqual(["@kit/lock has 8.1 KiB, and a README says 8 KiB"]);
  expect(problems(6)).toHaveLength(1);
  expect(statedWrongly("@kit/lock", "small", 8)).toEqual([]);
});
