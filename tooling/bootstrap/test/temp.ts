import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

/** An empty folder that is removed after the test. */
export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "kit-bootstrap-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes the files, named by their paths below the folder. */
export function writeFiles(folder: string, files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

/** A program that prints a line, such as a server's version. */
export function writeProgram(folder: string, name: string, line: string): string {
  const path = join(folder, name);
  writeFiles(folder, { [name]: `#!/bin/sh\necho '${line}'\n` });
  chmodSync(path, 0o755);
  return path;
}
