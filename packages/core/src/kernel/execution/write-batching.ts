import type { NodeClient } from "../connection/client.js";

/** The first write of a turn of the event loop begins at this command; each next one when the count has doubled. */
const firstWrite = 8;

/**
 * Collects the commands of one turn into few writes, since a write costs more than the rest of a command: a small first one, so
 * that the server begins, then ever larger ones.
 */
export class WriteBatching {
  /** How many commands of this turn were collected, and at which count they are written. */
  #corked = 0;
  #writeAt = firstWrite;

  /** Called before each command that is sent while others are under way. */
  beforeCommand(stream: NodeClient["stream"]): void {
    if (!stream?.cork) return;
    if (this.#corked++ === 0) {
      this.#writeAt = firstWrite;
      stream.cork();
      process.nextTick(() => {
        this.#corked = 0;
        stream.uncork?.();
      });
    } else if (this.#corked === this.#writeAt) {
      this.#writeAt *= 2;
      stream.uncork?.();
      stream.cork();
    }
  }
}
