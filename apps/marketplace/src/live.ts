// What moves on a page: one stream per page, at most one look at a lock per quarter second however many watch it, and
// none at all when nobody does.
import type { Lock, LockInspection } from "@kit/lock";
import type { Auditor } from "./auditor.js";
import { lockName } from "./keys.js";
import type { Market } from "./market.js";
import { barParts, lockPanel, partial, staleNote } from "./pages/live.js";

const tickMs = 250;
const barTicks = 4;
const pingTicks = 60;
const maxStreams = 200;

interface Stream {
  readonly item: string | null;
  /** The revision of the item that the page shows. */
  readonly revision: number;
  readonly send: (text: string) => boolean;
  readonly end: () => void;
  readonly sent: Map<string, string>;
  nextId: number;
}

interface Look {
  readonly lock: LockInspection | null;
  readonly revision: number | null;
}

export class Live {
  readonly #lock: Lock;
  readonly #market: Market;
  readonly #auditor: Auditor;
  readonly #streams = new Set<Stream>();
  #timer: NodeJS.Timeout | undefined;
  #tick = 0;
  #looking = false;

  constructor(lock: Lock, market: Market, auditor: Auditor) {
    this.#lock = lock;
    this.#market = market;
    this.#auditor = auditor;
  }

  get streams(): number {
    return this.#streams.size;
  }

  /** The state of one lock; null when Redis does not answer. */
  async lockState(item: string): Promise<LockInspection | null> {
    return await this.#lock.inspect(lockName(this.#market.id, item)).catch(() => null);
  }

  /** A stream of server-sent events for one page, or null when there are too many already. */
  open(item: string | null, revision: number): ReadableStream<Uint8Array> | null {
    if (this.#streams.size >= maxStreams) return null;
    const encoder = new TextEncoder();
    let stream: Stream;
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          stream = {
            item,
            revision,
            send: (text) => {
              // A reader that does not keep up misses a state, not the newest one.
              if ((controller.desiredSize ?? 0) <= 0) return false;
              controller.enqueue(encoder.encode(text));
              return true;
            },
            end: () => controller.close(),
            sent: new Map(),
            nextId: 1,
          };
          this.#streams.add(stream);
          stream.send("retry: 1000\n\n");
          this.#timer ??= setInterval(() => void this.#turn(), tickMs);
          void this.#turn();
        },
        cancel: () => {
          this.#streams.delete(stream);
          this.#rest();
        },
      },
      { highWaterMark: 16 },
    );
  }

  close(): void {
    for (const stream of this.#streams) stream.end();
    this.#streams.clear();
    this.#rest();
  }

  #rest(): void {
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #turn(): Promise<void> {
    // Redis may take longer than a tick; then the tick is left out.
    if (this.#looking) return;
    this.#looking = true;
    try {
      this.#tick++;
      const items = new Set([...this.#streams].map(({ item }) => item).filter((item) => item !== null));
      const looks = new Map<string, Look>();
      await Promise.all([...items].map(async (item) => looks.set(item, await this.#look(item))));
      const audit = await this.#auditor.look();
      for (const stream of this.#streams) {
        const parts: [string, string][] = [];
        if (this.#tick % barTicks === 0 || stream.sent.size === 0) parts.push(...barParts(audit));
        const look = stream.item === null ? undefined : looks.get(stream.item);
        if (look) {
          parts.push(["lock", lockPanel(look.lock)]);
          parts.push(["stale", staleNote(look.revision !== null && look.revision !== stream.revision)]);
        }
        this.#deliver(stream, parts);
      }
    } finally {
      this.#looking = false;
    }
  }

  async #look(item: string): Promise<Look> {
    const [lock, revision] = await Promise.all([this.lockState(item), this.#market.revision(item).catch(() => null)]);
    return { lock, revision };
  }

  #deliver(stream: Stream, parts: readonly [target: string, content: string][]): void {
    const news = parts.filter(([target, content]) => stream.sent.get(target) !== content);
    if (news.length === 0) {
      if (this.#tick % pingTicks === 0) stream.send(": still here\n\n");
      return;
    }
    const data = news
      .map(([target, content]) => partial(target, content))
      .join("")
      .replaceAll(/[\r\n]+/g, " ");
    if (!stream.send(`id: ${stream.nextId}\ndata: ${data}\n\n`)) return;
    stream.nextId++;
    for (const [target, content] of news) stream.sent.set(target, content);
  }
}
