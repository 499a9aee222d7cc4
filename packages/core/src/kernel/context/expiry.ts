import { detachedTimeout } from "../base/async-context.js";
import type { ClientContext } from "./context.js";

/** A right that ends at an instant of the local monotonic clock, unless it is renewed before. */
export interface ScheduledLease {
  /** Leases of one group are renewed in one script: all leases on a single server, or all leases of one slot on a Cluster. */
  readonly group: string;
  /** When to renew (monotonic ms). Infinity: not at all, or a renewal is in progress. */
  renewAt: number;
  /** When it may have ended (monotonic ms). */
  deadlineAt: number;
  /** Whether it is no longer renewed. It is then looked up on the server whenever all leases are renewed together. */
  readonly isUnattended?: boolean;
  /** For the scheduler: its index in the heap, or -1 if it is not in the heap. */
  heapIndex: number;
  /** How long before `renewAt` it may be renewed along with others, in milliseconds. */
  readonly renewSlackMs: number;
  /** Renews several leases of one group. Their `renewAt` is Infinity until their renewer sets it again. */
  renewAll(leases: readonly this[]): void;
  /** Called when the deadline has passed without a renewal. */
  lapse(): void;
}

const maxBatch = 100;
/** While a lease is scheduled, both clocks are compared this often, to notice that the machine slept. */
const maxSleepMs = 1_000;
/** The difference between the clocks changes by this much only if the machine slept, or somebody set the time. */
const maxDivergenceMs = 1_000;

const wallLead = (): number => performance.timeOrigin + performance.now() - wallNow();
// The only use of the wall clock in kit: to notice that the monotonic clock stood still. It times nothing.
// oxlint-disable-next-line no-restricted-properties
const wallNow = (): number => Date.now();

/** One heap of instants and one timer for all leases of a client. */
export class ExpiryScheduler {
  readonly #heap: ScheduledLease[] = [];
  #timer: NodeJS.Timeout | undefined;
  #timerAt = Infinity;
  #lead = wallLead();

  get size(): number {
    return this.#heap.length;
  }

  add(lease: ScheduledLease): void {
    if (!this.#timer) this.#lead = wallLead();
    lease.heapIndex = this.#heap.length;
    this.#heap.push(lease);
    this.#rise(lease);
    this.#arm();
  }

  /** Call this after `renewAt` or `deadlineAt` has changed. */
  changed(lease: ScheduledLease): void {
    if (lease.heapIndex < 0) return;
    this.#rise(lease);
    this.#sink(lease);
    this.#arm();
  }

  remove(lease: ScheduledLease): void {
    const { heapIndex } = lease;
    if (heapIndex < 0) return;
    lease.heapIndex = -1;
    const last = this.#heap.pop();
    if (last && last !== lease) {
      this.#heap[heapIndex] = last;
      last.heapIndex = heapIndex;
      this.#rise(last);
      this.#sink(last);
    }
    // The timer stays when no lease is left: it does not keep the process alive, and the next lease uses it again.
  }

  /** Renews all leases now. Call this after the clocks or the server changed. */
  renewNow(): void {
    const now = performance.now();
    for (const lease of [...this.#heap])
      if (lease.renewAt !== Infinity || lease.isUnattended) {
        lease.renewAt = now;
        this.changed(lease);
      }
  }

  #tick(): void {
    this.#timer = undefined;
    this.#timerAt = Infinity;
    try {
      this.#work();
    } finally {
      // Also when the renewal of one lease threw: the others still expire.
      this.#arm();
    }
  }

  #work(): void {
    const lead = wallLead();
    if (Math.abs(lead - this.#lead) > maxDivergenceMs) {
      this.#lead = lead;
      this.renewNow();
    }
    const now = performance.now();
    const due = new Map<string, ScheduledLease[]>();
    for (let lease = this.#heap[0]; lease && at(lease) <= now; lease = this.#heap[0]) {
      if (lease.deadlineAt <= now) {
        this.remove(lease);
        lease.lapse();
      } else this.#take(lease, due);
    }
    // Leases that are nearly due are renewed along with it, so that many leases cost few commands.
    if (due.size > 0)
      for (const lease of [...this.#heap])
        if (lease.renewAt - lease.renewSlackMs <= now && due.has(lease.group)) this.#take(lease, due);
    for (const leases of due.values())
      for (let start = 0; start < leases.length; start += maxBatch) {
        const batch = leases.slice(start, start + maxBatch);
        batch[0]?.renewAll(batch);
      }
  }

  #take(lease: ScheduledLease, due: Map<string, ScheduledLease[]>): void {
    lease.renewAt = Infinity;
    this.changed(lease);
    const group = due.get(lease.group);
    if (group) group.push(lease);
    else due.set(lease.group, [lease]);
  }

  #arm(): void {
    const [first] = this.#heap;
    if (!first) return;
    const now = performance.now();
    const next = Math.min(at(first), now + maxSleepMs);
    if (this.#timer && this.#timerAt <= next) return;
    clearTimeout(this.#timer);
    this.#timerAt = next;
    // Rounded down: a timer that fires a millisecond early is set again, and one that fires late misses the deadline.
    this.#timer = detachedTimeout(() => this.#tick(), Math.max(0, Math.floor(next - now)));
    this.#timer.unref();
  }

  #rise(lease: ScheduledLease): void {
    while (lease.heapIndex > 0) {
      const parent = this.#heap[(lease.heapIndex - 1) >> 1];
      if (!parent || at(parent) <= at(lease)) return;
      this.#swap(parent, lease);
    }
  }

  #sink(lease: ScheduledLease): void {
    for (;;) {
      const left = this.#heap[2 * lease.heapIndex + 1];
      const right = this.#heap[2 * lease.heapIndex + 2];
      const least = right && left && at(right) < at(left) ? right : left;
      if (!least || at(lease) <= at(least)) return;
      this.#swap(lease, least);
    }
  }

  #swap(a: ScheduledLease, b: ScheduledLease): void {
    [a.heapIndex, b.heapIndex] = [b.heapIndex, a.heapIndex];
    this.#heap[a.heapIndex] = a;
    this.#heap[b.heapIndex] = b;
  }
}

const at = ({ renewAt, deadlineAt }: ScheduledLease): number => Math.min(renewAt, deadlineAt);

const schedulers = new WeakMap<ClientContext, ExpiryScheduler>();

/** The scheduler for all leases on one client under one prefix. All of them are renewed on a new connection. */
export const expiryOf = (context: ClientContext): ExpiryScheduler => {
  const known = schedulers.get(context);
  if (known) return known;
  const scheduler = new ExpiryScheduler();
  schedulers.set(context, scheduler);
  context.onDetached(context.executor.onReady(() => scheduler.renewNow()));
  return scheduler;
};
