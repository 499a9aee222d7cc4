import type { Order, Served } from "./order.js";

/** The first queue that has a job is next, or a later queue that was passed over too often. */
export class StrictOrder implements Order {
  readonly #maxPassedOver: number;

  constructor(maxPassedOver: number) {
    this.#maxPassedOver = maxPassedOver;
  }

  free(served: readonly Served[], rank: number, free: number): number {
    const own = served[rank];
    if (own && this.#isDue(own)) return 1;
    const isFirst = served.slice(0, rank).every((earlier) => earlier.worker.isQuiet);
    if (!isFirst) return 0;
    // Each later queue that was passed over `maxPassedOver` times gets one handler.
    const reserved = served.slice(rank + 1).filter((later) => this.#isDue(later)).length;
    return Math.max(0, free - reserved);
  }

  began(served: readonly Served[], rank: number): void {
    for (const [index, one] of served.entries())
      if (index === rank || one.worker.isQuiet) one.passedOver = 0;
      else if (index > rank) one.passedOver++;
  }

  #isDue({ worker, passedOver }: Served): boolean {
    return passedOver >= this.#maxPassedOver && !worker.isQuiet;
  }
}
