const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const;

/** How long a command may take to end in order. */
const graceMs = 10_000;

let running: AbortController | undefined;
let endedBy: number | undefined;
let isResumable = false;

/** The exit code when a signal has ended the command, else undefined. */
export const signalExitCode = (): number | undefined => (isResumable && endedBy === exitCodes.SIGTERM ? 0 : endedBy);

/** The command that the signal ended continues when you run it again: a supervisor should see that as a success. */
export const endedResumable = (): void => {
  isResumable = true;
};

/** From now on the first signal only aborts the returned signal, and the process has 10 s to end in order. */
export const shutdownSignal = (): AbortSignal => (running ??= new AbortController()).signal;

/** Without a {@link shutdownSignal}, or at the second signal, the process exits immediately. */
export const listenForSignals = (): void => {
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.on(name, () => {
      if (!running || endedBy !== undefined) process.exit(exitCodes[name]);
      endedBy = exitCodes[name];
      setTimeout(() => process.exit(endedBy), graceMs).unref();
      running.abort();
    });
};
