/** Values that one side puts and the other takes, one at a time: `put` resolves when its value is wanted no more. */
export class Handoff<T> implements AsyncIterable<T> {
  #value: { readonly value: T; readonly taken: () => void } | undefined;
  #end: { readonly error?: Error } | undefined;
  #wake: () => void = () => undefined;

  put(value: T): Promise<void> {
    return new Promise((resolve) => {
      this.#value = { value, taken: resolve };
      this.#wake();
    });
  }

  /** Ends the values; with an error the taker throws it. */
  end(error?: Error): void {
    this.#end ??= error ? { error } : {};
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (;;) {
      if (this.#end?.error) throw this.#end.error;
      const given = this.#value;
      if (given) {
        this.#value = undefined;
        yield given.value;
        given.taken();
      } else if (this.#end) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
