import { spawn } from "node:child_process";
import { constants } from "node:os";

/**
 * Child processes, and their end when this process gets a signal.
 *
 * Ctrl-C reaches every process of the terminal's foreground group. A SIGTERM (or a SIGINT by `kill`) reaches only this
 * process. So children in our group get a moment to act on their own SIGINT before we send them SIGTERM. A child with a
 * group of its own (the demo) gets each signal exactly once, from us.
 */
const SELF_HELP_MS = 500;
const GRACE_MS = 2_000;
/** Tests stop real servers before they end, and turbo waits for them. */
const TESTS_GRACE_MS = 15_000;

/** @typedef {{ cwd?: string, env?: NodeJS.ProcessEnv }} RunOptions */
/** @typedef {{ child: import("node:child_process").ChildProcess, ownGroup: boolean }} Running */

/** @type {Set<Running>} */
const running = new Set();

/** @type {NodeJS.Signals | undefined} */
let stopSignal;

/** The work was ended by a signal; carries the exit code that shells use for it. */
export class Interrupted extends Error {
  /** @param {NodeJS.Signals} signal */
  constructor(signal) {
    super(`ended by ${signal}`);
    this.exitCode = 128 + constants.signals[signal];
  }
}

/** Throws after a signal to stop, so that no further work is started. */
export function throwIfStopped() {
  if (stopSignal !== undefined) throw new Interrupted(stopSignal);
}

export function listenForSignals() {
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) process.on(signal, () => stop(signal));
}

/** @param {NodeJS.Signals} signal */
function stop(signal) {
  if (stopSignal !== undefined) return;
  stopSignal = signal;
  for (const { child, ownGroup } of running) if (ownGroup || signal !== "SIGINT") child.kill(signal);
  setTimeout(() => {
    for (const { child, ownGroup } of running) if (!ownGroup) child.kill("SIGTERM");
  }, SELF_HELP_MS).unref();
  setTimeout(() => {
    for (const one of running) if (one.ownGroup) killHard(one);
  }, GRACE_MS).unref();
  setTimeout(() => {
    for (const one of running) killHard(one);
  }, TESTS_GRACE_MS).unref();
}

/** @param {Running} one */
function killHard({ child, ownGroup }) {
  if (child.pid === undefined) return;
  try {
    process.kill(ownGroup ? -child.pid : child.pid, "SIGKILL");
  } catch {
    // The process has ended already.
  }
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {import("node:child_process").SpawnOptions} options
 */
function start(command, args, options) {
  throwIfStopped();
  const child = spawn(command, args, options);
  const one = { child, ownGroup: options.detached === true };
  running.add(one);
  /** @type {Promise<number>} */
  const ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
  });
  return { child, ended: ended.finally(() => running.delete(one)), leaveNothing: () => killHard(one) };
}

/**
 * Runs a program and collects what it prints.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {RunOptions} options
 */
export async function capture(command, args, options = {}) {
  const { child, ended } = start(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text) => ((stdout += text), (output += text)));
  child.stderr?.setEncoding("utf8").on("data", (text) => (output += text));
  const code = await ended;
  throwIfStopped();
  return { code, stdout, output };
}

/**
 * Runs a program that prints for itself; resolves to its exit code.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {RunOptions} options
 */
export async function show(command, args, options = {}) {
  const code = await start(command, args, { ...options, stdio: "inherit" }).ended;
  throwIfStopped();
  return code;
}

/**
 * Runs a long-living program in a process group of its own, so that it gets each signal only from us. Kills the group
 * after the program has ended. The program's file descriptor 3 closes when this process dies; leash.mjs turns that into a
 * SIGTERM.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {RunOptions} options
 */
export async function host(command, args, options = {}) {
  const { ended, leaveNothing } = start(command, args, {
    ...options,
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "pipe"],
  });
  const code = await ended;
  leaveNothing();
  throwIfStopped();
  return code;
}
