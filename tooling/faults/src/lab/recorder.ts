import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Mutations } from "./control.js";
import { workspaceFolder } from "./paths.js";
import type { Setting } from "./setting.js";

/**
 * Whether scripts record what they write. A history is worth nothing where the server loses a part of it. In a slot that
 * moves, the recorder's key, which the scripts do not declare, would fail them.
 */
export const isRecorded = (setting: Setting): boolean => !["lost", "shifted", "resharded"].includes(setting);

/** The key of a history, by the name whose scripts write it. */
export const historyOf = (name: string): string => `history:{${name}}`;

/**
 * The recorder of a workload, in one line, for each place of `recorded`. Its value is the name in the records, which stands in
 * the recorder as SCRIPT.
 */
export const recordersIn = (file: string, recorded: Readonly<Record<string, string>>): Mutations => {
  const lines = readFileSync(join(workspaceFolder, "src/workloads", file), "utf8").split("\n");
  const lua = lines
    .filter((line) => !line.startsWith("--"))
    .map((line) => line.trim())
    .join(" ");
  return Object.fromEntries(Object.entries(recorded).map(([place, name]) => [place, lua.replaceAll("SCRIPT", name)]));
};
