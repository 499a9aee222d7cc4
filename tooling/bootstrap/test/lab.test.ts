import { chmodSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { missingLabTools } from "../lab.mjs";
import { tempFolder, writeFiles } from "./temp.js";

it("names the tools of the fault lab that are not on PATH", () => {
  const folder = tempFolder();
  expect(missingLabTools({ PATH: folder })).toContain("cc");
  writeFiles(folder, { cc: "", nft: "", ip: "", logrotate: "" });
  // A file with that name must also be executable.
  expect(missingLabTools({ PATH: folder })).toContain("cc");
  for (const name of ["cc", "nft", "ip", "logrotate"]) chmodSync(join(folder, name), 0o755);
  expect(missingLabTools({ PATH: folder })).toEqual([]);
});
