import { execFileSync } from "node:child_process";

/** Moves this client process to a core. */
export const pin = ({ core }: { readonly core: number }): void =>
  void execFileSync("taskset", ["-acp", String(core), String(process.pid)]);
