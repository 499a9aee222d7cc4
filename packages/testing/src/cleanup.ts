// One set of process listeners for all servers: a listener each would soon pass Node's limit of ten.
const cleaners = new Set<() => void>();
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Runs `clean` (synchronous) when this process ends: by exit, by an uncaught error, or by a signal without another listener.
 * Returns a function that cancels it. Nothing can run after SIGKILL.
 */
export function atProcessEnd(clean: () => void): () => void {
  if (cleaners.size === 0) {
    process.on("exit", cleanAll);
    for (const signal of SIGNALS) process.on(signal, onSignal);
  }
  cleaners.add(clean);
  return () => {
    if (cleaners.delete(clean) && cleaners.size === 0) stopListening();
  };
}

function onSignal(signal: NodeJS.Signals): void {
  // Another listener decides when the process ends, and may need the servers until then.
  if (process.listenerCount(signal) > 1) return;
  cleanAll();
  // Without our listener the signal has its usual effect, and the parent sees the right exit status.
  process.kill(process.pid, signal);
}

function cleanAll(): void {
  for (const clean of cleaners) clean();
  cleaners.clear();
  stopListening();
}

function stopListening(): void {
  process.off("exit", cleanAll);
  for (const signal of SIGNALS) process.off(signal, onSignal);
}
