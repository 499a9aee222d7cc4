/**
 * The commands that node-redis has not written to its socket yet. node-redis uses this as the AbortSignal of each command: it adds
 * a listener, and removes it when it writes the command. A separate AbortSignal per command would cost as much as the rest of the
 * command.
 */
export class Unwritten {
  readonly aborted = false;
  readonly #listeners = new Set<() => void>();

  addEventListener(_: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }

  /** Rejects these commands, so that they never run: their connection is lost. */
  takeBack(): void {
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener();
  }
}
