import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Mutations } from "../../lab/control.js";
import { workspaceFolder } from "../../lab/paths.js";
import type { Setting } from "../../lab/setting.js";

/**
 * The scripts that record their writes, each with the name in its records. The library `grant` runs in every script; it
 * records as `other` where the script itself does not record.
 */
const recorded: Readonly<Record<string, string>> = {
  acquire: "acquire",
  release: "release",
  renew: "renew",
  grant: "other",
};

/**
 * Whether the scripts record what they write. A history is worth nothing where the server loses a part of it. In a slot
 * that moves, the recorder's key, which the scripts do not declare, would fail them.
 */
export const isRecorded = (setting: Setting): boolean => !["lost", "shifted", "resharded"].includes(setting);

export const recorders = (): Mutations => {
  const file = join(workspaceFolder, "src/workloads/semaphore/recorder.lua");
  const lines = readFileSync(file, "utf8").split("\n");
  const lua = lines
    .filter((line) => !line.startsWith("--"))
    .map((line) => line.trim())
    .join(" ");
  return Object.fromEntries(Object.entries(recorded).map(([script, name]) => [script, lua.replaceAll("SCRIPT", name)]));
};
