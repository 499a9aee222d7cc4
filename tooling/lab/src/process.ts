import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

export const hasEnded = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null;

/** Sends the signal. Resolves once the process has ended. */
export const end = async (child: ChildProcess, signal: NodeJS.Signals = "SIGKILL"): Promise<void> => {
  if (hasEnded(child)) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
};

/** Collects what a process prints, from now on. It is complete at the event `close`. */
export const outputOf = (child: ChildProcess): { readonly stdout: string; readonly stderr: string } => {
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name]?.setEncoding("utf8").on("data", (text: string) => (output[name] += text));
  return output;
};
