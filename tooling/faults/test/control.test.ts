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

it("refuses unknown scripts and operands", () => {
  const built = (place: string) => () => builtWith("mutation", "@kit/chat", { [place]: "" });
  expect(built("none")).toThrow('no script "none"');
  expect(built("ack(none)")).toThrow("no operand none");
});

const folder = new URL("../src/workloads/", import.meta.url);
const loaded = async <T>(file: string): Promise<T> => (await import(new URL(file, folder).href)) as T;

it.each(readdirSync(folder))("finds the scripts and the lie of each control of %s", async (name) => {
  const { workload } = await loaded<{ readonly workload: Workload }>(`${name}/index.ts`);
  const modules = name === "core" ? ["@kit/core/config"] : [`@kit/${name}`];
  const lies = workload.controls.flatMap((control) => subjectOf(name, modules, control).lie ?? []);
  for (const lie of lies) {
    const told = await loaded<{ readonly lies: Readonly<Record<string, unknown>> }>(lie.file);
    expect(told.lies).toHaveProperty([lie.name], expect.any(Function));
  }
  expect(workload.controls.length).toBeGreaterThan(lies.length);
});
