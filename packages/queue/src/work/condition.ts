import { type Deadline, settled } from "@kit/core/toolkit";

/** A condition that becomes true later. Code that can change it calls `look()`. */
export class Condition {
  readonly #isSo: () => boolean;
  readonly #waiting = new Set<() => void>();

  constructor(isSo: () => boolean) {
    this.#isSo = isSo;
  }

  /** Resolves once the condition is true, or at the deadline. */
  async until(deadline: Deadline): Promise<void> {
    if (this.#isSo()) return;
    await settled<void>(
      { deadline },
      ({ resolve }) => resolve(),
      ({ resolve }) => {
        this.#waiting.add(resolve);
        return () => void this.#waiting.delete(resolve);
      },
    );
  }

  look(): void {
    if (this.#isSo()) for (const resolve of [...this.#waiting]) resolve();
  }
}
