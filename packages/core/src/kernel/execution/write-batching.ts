import type { NodeClient } from "../connection/client.js";

/** The first write in a turn of the event loop starts at this command. Each later one starts when the count has doubled. */
const firstWrite = 8;

/**
 * Collects the commands of one turn into few writes, because a write costs more than the rest of a command. The first write is
 * small, so that the server starts early. Later writes are larger.
 */
export class WriteBatching {
  /** How many commands of this turn were collected, and at which count they are written. */
  #corked = 0;
  #writeAt = firstWrite;

  /** Call this before each command that is sent while others are in flight. */
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
