/**
 * The commands that node-redis has not written to its socket yet. node-redis takes this for the AbortSignal of each command: it adds a
 * listener, and removes it when it writes the command. An AbortSignal for each of them would cost as much as the rest of a command.
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

  /** They reject and never run: the connection that they were meant for is lost. */
  takeBack(): void {
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener();
  }
}
