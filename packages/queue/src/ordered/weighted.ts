import type { Order, Served } from "./order.js";

/**
 * Gives each free handler to a queue by smooth weighted round robin, as nginx does with upstream servers since its commit 52327e0627f4.
 *
 * Each queue that has jobs gains its weight as credit. The queue with the most credit is next, and pays the sum of these weights. A queue
 * without jobs has no credit, so it cannot save up for later.
 */
export class WeightedOrder implements Order {
  free(served: readonly Served[], rank: number, free: number): number {
    for (const one of served) if (one.worker.isQuiet) release(one, served);
    let granted = served.reduce((sum, one) => sum + one.granted, 0);
    const others = new Set<Served>();
    for (let next; granted < free && (next = nextOf(served)); granted++) {
      next.granted++;
      if (next !== served[rank]) others.add(next);
    }
    for (const { worker } of others) worker.look();
    return Math.min(free, served[rank]?.granted ?? 0);
  }

  began(served: readonly Served[], rank: number): void {
    const own = served[rank];
    if (own && own.granted > 0) own.granted--;
  }
}

/** The queue has no job for the handlers that it was given. Takes back the credit that other queues got for them. */
const release = (quiet: Served, served: readonly Served[]): void => {
  for (const other of served) if (!other.worker.isQuiet) other.credit -= quiet.granted * other.weight;
  quiet.granted = quiet.credit = 0;
};

/** The queue that gets the next free handler. Undefined if no queue has a job. */
const nextOf = (served: readonly Served[]): Served | undefined => {
  let total = 0;
  let next: Served | undefined;
  for (const one of served) {
    if (one.worker.isQuiet) continue;
    total += one.weight;
    one.credit += one.weight;
    if (!next || one.credit > next.credit) next = one;
  }
  if (next) next.credit -= total;
  return next;
};
