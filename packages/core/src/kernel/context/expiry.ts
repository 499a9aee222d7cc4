import type { ClientContext } from "./context.js";

/** A right that ends at an instant of our monotonic clock unless it is renewed before. */
export interface ScheduledLease {
  /** Leases of one group are renewed in one script: all of a single server, those of one slot on a Cluster. */
  readonly group: string;
  /** When to renew (monotonic ms); Infinity: not at all, or a renewal is under way. */
  renewAt: number;
  /** When it may have ended (monotonic ms). */
  deadlineAt: number;
  /** Whether it is not renewed any more: then the server is asked for it whenever all others are renewed at once. */
  readonly isUnattended?: boolean;
  /** The scheduler's own: where it stands in the heap; -1: nowhere. */
  heapIndex: number;
  /** How far ahead of `renewAt` it may be taken along with others. */
  readonly renewSlackMs: number;
  /** Renews several of one group; each one's `renewAt` is Infinity until its renewer sets it again. */
  renewAll(leases: readonly this[]): void;
  /** The deadline passed without a renewal. */
  lapse(): void;
}

const maxBatch = 100;
/** While anything is scheduled we look at the clocks this often: a machine that slept is noticed within it. */
const maxSleepMs = 1_000;
/** Wall and monotonic clock part by this much only when the machine slept, or somebody set the time. */
const maxDivergenceMs = 1_000;

const wallLead = (): number => performance.timeOrigin + performance.now() - wallNow();
// The one use of the wall clock in kit: to notice that the monotonic one stood still. Nothing is timed by it.
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

  /** To be called after `renewAt` or `deadlineAt` changed. */
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
    // The timer stays when nothing is left: it holds no process, and a caller that takes lock after lock needs no other.
  }

  /** Renews everything now: the clocks, or the server, are not what they were. */
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
      // Also when a lease of somebody threw: the others' time goes on.
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
    // Those that are nearly due go along, so that many leases cost few commands.
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
    // Rounded down: a deadline is better seen a millisecond early than late; an early look arms again.
    this.#timer = setTimeout(() => this.#tick(), Math.max(0, Math.floor(next - now)));
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

/** The scheduler for all leases that live on one client under one prefix. All are renewed on a new connection. */
export const expiryOf = (context: ClientContext): ExpiryScheduler => {
  const known = schedulers.get(context);
  if (known) return known;
  const scheduler = new ExpiryScheduler();
  schedulers.set(context, scheduler);
  context.onDetached(context.executor.onReady(() => scheduler.renewNow()));
  return scheduler;
};
