/** A thread that renews the leases of a worker while the main loop is blocked. */
export interface LeaseMirror {
  /** Leases were taken: their members, one per line. Ended leases can be reported later. */
  held(members: string): void;
  /** Extends the leases that the thread has renewed so far. */
  fetch(): void;
  close(): void;
}

/** The leases of a worker, as far as the thread needs them. */
export interface MirroredLeases {
  /** The members of all leases, one per line. */
  readonly members: string;
  mirrorTo(mirror: LeaseMirror | undefined): void;
  /**
   * The thread has renewed some leases until `until`, on our clock, and found that the jobs of others were cancelled. It does not know
   * leases from a reply that arrived during the block.
   */
  settle(renewed: ReadonlySet<string>, cancelled: ReadonlySet<string>, until: number): void;
}
