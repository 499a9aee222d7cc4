import { readFileSync } from "node:fs";
import { eventually } from "@kit/testing";

const stateOf = (pid: number): string =>
  /^\d+ \(.*\) (\S)/s.exec(readFileSync(`/proc/${String(pid)}/stat`, "utf8"))?.[1] ?? "";

/** Resolves when the kernel reports that the process is stopped. */
export const stopped = async (pid: number): Promise<void> => {
  await eventually(() => {
    if (stateOf(pid) !== "T") throw new Error("it runs");
  });
};
