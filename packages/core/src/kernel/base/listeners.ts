/** Functions that are called together. */
export class Listeners {
  readonly #all = new Set<() => void>();

  /** Adds a listener. Returns a function that removes it. */
  readonly add = (listener: () => void): (() => void) => {
    this.#all.add(listener);
    return () => this.#all.delete(listener);
  };

  /** Calls those that are there now: a call may remove its own. */
  call(): void {
    for (const listener of [...this.#all]) listener();
  }
}
