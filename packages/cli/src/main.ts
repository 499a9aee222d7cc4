#!/usr/bin/env node
import { KitError } from "@kit/core";
import { CommanderError } from "commander";
import { exitCodes, Failure } from "./exit-codes.js";
import { writeJson } from "./output.js";
import { harmless } from "./print.js";
import { programFor } from "./program.js";
import { listenForSignals, signalExitCode } from "./shutdown.js";

const exitCodeOf = (error: unknown): number => {
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.fine : exitCodes.usage;
  if (error instanceof Failure) return error.exitCode;
  if (error instanceof TypeError || error instanceof RangeError) return exitCodes.usage;
  if (!KitError.is(error)) return exitCodes.problem;
  if (error.code === "KIT_TARGET" || error.code === "KIT_NAME") return exitCodes.usage;
  return error.code === "KIT_UNAVAILABLE" || error.code === "KIT_AUTH" ? exitCodes.noConnection : exitCodes.problem;
};

const messageOf = (error: unknown): string => harmless(error instanceof Error ? error.message : String(error));

// `kit doctor | head -1` has read enough, and nothing reads an error message.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCodes.fine);
    throw error;
  });
listenForSignals();

const argv = process.argv.slice(2);
try {
  const program = await programFor(argv, (exitCode) => {
    process.exitCode = exitCode;
  });
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
  // commander has printed everything by then.
  if (!(error instanceof CommanderError)) process.stderr.write(`kit: ${messageOf(error)}\n`);
  if (process.exitCode !== exitCodes.fine && argv.includes("--json")) {
    const code = KitError.is(error) ? error.code : null;
    await writeJson({ error: { code, message: messageOf(error) }, exitCode: process.exitCode });
  }
}

// The callback of a write to a pipe runs when the text is read. A stopped server may keep a connection open.
const flushed = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => stream.write("", () => resolve()));
await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
process.exitCode = signalExitCode() ?? process.exitCode;
process.exit();
