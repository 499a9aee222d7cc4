/** How often a listed message was logged, and when. */
export interface Count {
  /** How much more often it was logged, at most, than a message that is not listed. */
  score: number;
  /** How often it was logged for certain: while it was listed. */
  sure: number;
  firstLocalAt: number;
  lastLocalAt: number;
  readonly sample: string;
}

/**
 * The most frequent messages of a level and a window, by fingerprint, in bounded memory. A listed message was logged at least
 * `sure` and at most `score + missed` times, any other at most `missed` times. See "Messages" in DESIGN.md.
 */
export class Frequencies {
  readonly counts: Map<string, Count> = new Map();
  missed = 0;
  /** The messages that no `sure` counts. */
  #unlisted = 0;

  /** Counts messages of a fingerprint, which is listed from now on. */
  add(fingerprint: string, added: Count): void {
    const known = this.counts.get(fingerprint);
    if (!known) {
      this.counts.set(fingerprint, { ...added });
      return;
    }
    known.score += added.score;
    known.sure += added.sure;
    known.firstLocalAt = Math.min(known.firstLocalAt, added.firstLocalAt);
    known.lastLocalAt = Math.max(known.lastLocalAt, added.lastLocalAt);
  }

  /**
   * Counts a message that cannot be listed: every score falls by one, and a message whose score is 0 leaves the list. Returns
   * how many have left.
   */
  miss(): number {
    const before = this.counts.size;
    this.missed++;
    this.#unlisted++;
    for (const [fingerprint, count] of this.counts) {
      if (--count.score > 0) continue;
      this.counts.delete(fingerprint);
      this.#unlisted += count.sure;
    }
    return before - this.counts.size;
  }

  /** Adds the counts of others and drops none, so its list can become longer. */
  merge(other: Frequencies): void {
    for (const [fingerprint, count] of other.counts) this.add(fingerprint, count);
    this.missed += other.missed;
    this.#unlisted += other.#unlisted;
  }

  /**
   * Moves up to `places` fingerprints, and all that is not listed, to others. Together they say what this one said.
   * Returns how many messages were moved.
   */
  moveTo(other: Frequencies, places: number): number {
    let moved = this.#unlisted;
    other.missed += this.missed;
    other.#unlisted += this.#unlisted;
    this.missed = this.#unlisted = 0;
    for (const [fingerprint, count] of this.counts) {
      if (places-- <= 0) break;
      this.counts.delete(fingerprint);
      other.add(fingerprint, count);
      moved += count.sure;
    }
    return moved;
  }
}
