import { KitError } from "./errors.js";

/** A lost reply and no reply count as the same sign of an outage. */
const kindOf = ({ code }: KitError): string => (code === "KIT_UNKNOWN_OUTCOME" ? "KIT_UNAVAILABLE" : code);

/** Whether it is an error of the server. A key type error concerns only the key whose loop has ended. */
const mayLast = (kind: string): boolean => kind !== "KIT_KEY_TYPE";

/**
 * Reports outages of an object's loops, each of which retries until it is closed. It emits the first failure of each kind. At the
 * end of the outage it emits an error with the code `KIT_RECOVERED` and the first failure as `cause`. It emits nothing for the
 * tries between.
 *
 * The outage is over when no loop fails and a command has succeeded. A loop that ends while it fails leaves the outage open.
 */
export class OutageReporter {
  readonly #emit: (error: KitError) => void;
  /** The loops whose last try failed, with the kind of the error. */
  readonly #failing = new Map<string, string>();
  /** The kinds of failures of ended loops, until a command succeeds. */
  readonly #left = new Set<string>();
  #first: KitError | undefined;
  #since = 0;

  constructor(emit: (error: KitError) => void) {
    this.#emit = emit;
  }

  /** Call this when a try of a loop has failed. */
  failed(loop: string, error: KitError): void {
    const isKnown = this.#knows(error);
    this.#begin(error);
    this.#failing.set(loop, kindOf(error));
    if (!isKnown) this.#emit(error);
  }

  /** Reports a failure that is not retried. A failure that may be temporary also counts as an outage. */
  report(error: KitError): void {
    if (this.#knows(error)) return;
    const kind = kindOf(error);
    if (error.retryable || kind === "KIT_UNAVAILABLE") {
      this.#begin(error);
      this.#left.add(kind);
    }
    this.#emit(error);
  }

  /** Call this when a loop has a connection again. The server may still refuse its command. */
  connected(loop: string): void {
    if (this.#failing.get(loop) === "KIT_UNAVAILABLE") this.worked(loop);
  }

  /** Call this when a loop has ended or has nothing left to do. Its next try might have failed or succeeded. */
  ended(loop: string): void {
    const kind = this.#failing.get(loop);
    this.#failing.delete(loop);
    if (kind !== undefined && mayLast(kind)) this.#left.add(kind);
  }

  /** Call this when a try of a loop has succeeded, or, without a loop, a command of the object. */
  worked(loop?: string): void {
    if (!this.#isOpen) return;
    if (loop !== undefined) this.#failing.delete(loop);
    if (this.#failing.size > 0) return;
    this.#left.clear();
    const seconds = ((performance.now() - this.#since) / 1_000).toFixed(1);
    const cause = this.#first;
    // The unknown outcome is over: its own error reported it.
    const first = cause?.code === "KIT_UNKNOWN_OUTCOME" ? "a reply was lost" : cause?.message;
    this.#emit(new KitError("KIT_RECOVERED", `Recovered after ${seconds} s. First error: ${first ?? ""}`, { cause }));
  }

  /** The first failure of the current outage. Undefined if there is none. */
  get failure(): KitError | undefined {
    return this.#isOpen ? this.#first : undefined;
  }

  get #isOpen(): boolean {
    return this.#failing.size + this.#left.size > 0;
  }

  #begin(error: KitError): void {
    if (this.#isOpen) return;
    this.#first = error;
    this.#since = performance.now();
  }

  #knows(error: KitError): boolean {
    const wanted = kindOf(error);
    if (this.#left.has(wanted)) return true;
    for (const kind of this.#failing.values()) if (kind === wanted) return true;
    return false;
  }
}
