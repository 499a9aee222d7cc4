/**
 * A cache of about `max` values: the least recently used are dropped first. It has two generations instead of a list,
 * so that a hit is one look-up in a Map and moves nothing.
 */
export class Recent<Value> {
  readonly #half: number;
  #young = new Map<number, Value>();
  #old = new Map<number, Value>();

  constructor(max: number) {
    this.#half = Math.max(1, Math.ceil(max / 2));
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(number: number): Value | undefined {
    const young = this.#young.get(number);
    if (young !== undefined) return young;
    const old = this.#old.get(number);
    if (old !== undefined) {
      this.#old.delete(number);
      this.set(number, old);
    }
    return old;
  }

  set(number: number, value: Value): void {
    if (this.#young.size >= this.#half) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(number, value);
  }
}

/** A cache of fetched values. */
export class Cache<Value> extends Recent<Value> {
  readonly #fetch: (number: number) => Promise<Value>;
  readonly #fetching = new Map<number, Promise<Value>>();

  constructor(max: number, fetch: (number: number) => Promise<Value>) {
    super(max);
    this.#fetch = fetch;
  }

  /** The value, fetched once for all concurrent callers. */
  load(number: number): Promise<Value> {
    const value = this.get(number);
    if (value !== undefined) return Promise.resolve(value);
    let fetching = this.#fetching.get(number);
    if (!fetching) {
      fetching = this.#fetch(number)
        .then((fetched) => {
          this.set(number, fetched);
          return fetched;
        })
        .finally(() => this.#fetching.delete(number));
      this.#fetching.set(number, fetching);
    }
    return fetching;
  }
}
