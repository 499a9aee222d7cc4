import { KitError } from "./errors.js";

/** A lost reply and no reply are the same sign of an outage. */
const kindOf = ({ code }: KitError): string => (code === "KIT_UNKNOWN_OUTCOME" ? "KIT_UNAVAILABLE" : code);

/**
 * Reports the state of an object's loops, each of which tries on until it is closed: the first failure of each kind, and the end of the
 * outage, which is an error with the code `KIT_RECOVERED` and the first failure as its `cause`. Tries between report nothing.
 */
export class OutageReporter {
  readonly #emit: (error: KitError) => void;
  /** The loops whose last try failed, with the error. */
  readonly #failing = new Map<string, string>();
  #first: KitError | undefined;
  #since = 0;

  constructor(emit: (error: KitError) => void) {
    this.#emit = emit;
  }

  /** A try of a loop has failed. */
  failed(loop: string, error: KitError): void {
    const isKnown = this.#knows(error);
    if (this.#failing.size === 0) {
      this.#first = error;
      this.#since = performance.now();
    }
    this.#failing.set(loop, kindOf(error));
    if (!isKnown) this.#emit(error);
  }

  /** Something failed that is not tried again. */
  report(error: KitError): void {
    if (!this.#knows(error)) this.#emit(error);
  }

  /** A loop has a connection again. The server may still refuse its command. */
  connected(loop: string): void {
    if (this.#failing.get(loop) === "KIT_UNAVAILABLE") this.worked(loop);
  }

  /** A loop has ended: it is unknown whether its next try would have succeeded. */
  ended(loop: string): void {
    this.#failing.delete(loop);
  }

  /** A try of a loop has succeeded, or the loop has nothing to do any more. */
  worked(loop: string): void {
    if (!this.#failing.delete(loop) || this.#failing.size > 0) return;
    const seconds = ((performance.now() - this.#since) / 1_000).toFixed(1);
    const cause = this.#first;
    this.#emit(new KitError("KIT_RECOVERED", `It works again, after ${seconds} s: ${cause?.message ?? ""}`, { cause }));
  }

  #knows(error: KitError): boolean {
    const wanted = kindOf(error);
    for (const kind of this.#failing.values()) if (kind === wanted) return true;
    return false;
  }
}
