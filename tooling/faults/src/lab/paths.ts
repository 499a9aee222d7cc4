import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** Finds the same folder from the source and from the build, which lie at different depths. */
const findFolder = (): string => {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
};

/** The root of this workspace. Worker programs and shims are started from its source. */
export const workspaceFolder: string = findFolder();

/** Files built at run time; not under version control. */
export const cacheFolder: string = join(workspaceFolder, "../../.cache/faults");
