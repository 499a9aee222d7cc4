import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { builtWith, subjectOf } from "../src/lab/control.js";
import type { Workload } from "../src/workload.js";

it("puts a mutation before the libraries of a script, so that they run with it", () => {
  const lua = "local redis = nil";
  const copy = builtWith("mutation", "@kit/chat", { "ack(acks)": lua });
  const text = readFileSync(fileURLToPath(copy), "utf8").replaceAll(String.raw`\n`, "\n");
  expect(text).toContain(`local acks = ARGV\n${lua}\n-- Libraries\n`);
});

it("changes the scripts of each entry by their own places", () => {
  const lua = { "acquire(lease)": "lease = 'own'", "read-write/acquire(leases)": "leases = 'others'" };
  const textOf = (module: string | undefined): string => readFileSync(fileURLToPath(module ?? ""), "utf8");
  const [lock, readWrite] = subjectOf("lock", ["@kit/lock", "@kit/lock/read-write"], { name: "both", lua }).modules;
  expect([textOf(lock), textOf(readWrite)].map((text) => text.includes("lease = 'own'"))).toEqual([true, false]);
  expect([textOf(lock), textOf(readWrite)].map((text) => text.includes("leases = 'others'"))).toEqual([false, true]);
});

it("refuses unknown scripts and operands", () => {
  const built = (place: string) => () => builtWith("mutation", "@kit/chat", { [place]: "" });
  expect(built("none")).toThrow('no script "none"');
  expect(built("ack(none)")).toThrow("no operand none");
});

const folder = new URL("../src/workloads/", import.meta.url);
const loaded = async <T>(file: string): Promise<T> => (await import(new URL(file, folder).href)) as T;

const modulesOf: Readonly<Record<string, readonly string[]>> = {
  core: ["@kit/core/config"],
  lock: ["@kit/lock", "@kit/lock/read-write"],
  quorum: ["@kit/lock/quorum"],
};

it.each(readdirSync(folder))("finds the scripts and the lie of each control of %s", async (name) => {
  const { workload } = await loaded<{ readonly workload: Workload }>(`${name}/index.ts`);
  const modules = modulesOf[name] ?? [`@kit/${name}`];
  const lies = workload.controls.flatMap((control) => subjectOf(name, modules, control).lie ?? []);
  for (const lie of lies) {
    const told = await loaded<{ readonly lies: Readonly<Record<string, unknown>> }>(lie.file);
    expect(told.lies).toHaveProperty([lie.name], expect.any(Function));
  }
  expect(workload.controls.length).toBeGreaterThan(lies.length);
});
