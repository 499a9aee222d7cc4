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

/** A Lua file in one line, without its comments. */
const luaOf = (file: string): string =>
  readFileSync(join(workspaceFolder, "src", file), "utf8")
    .split("\n")
    .filter((line) => !line.startsWith("--"))
    .map((line) => line.trim())
    .join(" ");

/**
 * The recorder of a workload, by the script or library that it runs before. `library` is the first one that writes. It runs in every
 * script that can grant, and records as `other` where the script itself does not record. `entry` is the entry of the package, like
 * `read-write/`.
 */
export const recordersIn = (workload: string, library = "grant", entry = ""): Mutations => {
  const lua = luaOf("lab/recorder.lua").replace("RULES", () => luaOf(`workloads/${workload}/recorder.lua`));
  const recorded = { acquire: "acquire", release: "release", renew: "renew", [library]: "other" };
  return Object.fromEntries(
    Object.entries(recorded).map(([script, name]) => [`${entry}${script}`, lua.replaceAll("SCRIPT", name)]),
  );
};
