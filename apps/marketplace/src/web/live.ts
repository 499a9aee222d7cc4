// Live parts of pages, over one stream per page. Data is read at most four times a second for all its watchers
// together, and never without a watcher.
import { createHash } from "node:crypto";
import type { Auditor } from "../market/auditor.js";
import { text } from "../pages/html.js";
import { barParts, type Part, partial } from "../pages/live.js";

const tickMs = 250;
const barTicks = 4;
const pingTicks = 60;
const maxStreams = 200;
const longestId = 1_000;

/** Something that a page shows live. Watches with the same key share their reads. */
export interface Watch<Seen = unknown> {
  readonly key: string;
  /** Quarters of a second between two reads. */
  readonly everyTicks: number;
  readonly look: () => Promise<Seen>;
  readonly parts: (seen: Seen) => readonly Part[];
}

/** Checks that `parts` takes the type that `look` returns, then hides that type. */
export const watch = <Seen>(one: Watch<Seen>): Watch => one as unknown as Watch;

interface Stream {
  readonly watches: readonly Watch[];
  /** The session whose private data the stream shows. */
  readonly session: string | undefined;
  readonly send: (text: string) => boolean;
  readonly end: () => void;
  sent: ReadonlyMap<string, { readonly content: string; readonly digest: string }>;
  /** Digests of the parts that the page already has, from its last event id. */
  readonly had: ReadonlySet<string>;
  isNew: boolean;
}

const digestOf = (target: string, content: string): string =>
  createHash("sha256").update(`${target} ${content}`).digest("base64url").slice(0, 8);

/** Parts as text, since a stream compares each with the one sent last. */
type Written = readonly [target: string, content: string];
const written = (parts: readonly Part[]): Written[] => parts.map(([target, content]) => [target, text(content)]);

/** The parts of one watch. None if they cannot be drawn: the other pages still get theirs. */
const partsOf = (one: Watch, seen: unknown): readonly Written[] => {
  try {
    return written(one.parts(seen));
  } catch {
    return [];
  }
};

export class Live {
  readonly #auditor: Auditor;
  readonly #streams = new Set<Stream>();
  #timer: NodeJS.Timeout | undefined;
  #tick = 0;
  #looking = false;

  constructor(auditor: Auditor) {
    this.#auditor = auditor;
  }

  get streams(): number {
    return this.#streams.size;
  }

  /**
   * Opens a stream of server-sent events for one page; null if there are too many streams.
   *
   * The id of an event lists the digests of all parts. A page that reconnects with `lastEventId` receives only the
   * parts that have changed meanwhile. With a `session`, {@link endOf} ends the stream.
   */
  open(watches: readonly Watch[], lastEventId = "", session?: string): ReadableStream<Uint8Array> | null {
    if (this.#streams.size >= maxStreams) return null;
    const encoder = new TextEncoder();
    let stream: Stream;
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          stream = {
            watches,
            session,
            send: (text) => {
              // A slow reader misses intermediate states, but never the newest.
              if ((controller.desiredSize ?? 0) <= 0) return false;
              controller.enqueue(encoder.encode(text));
              return true;
            },
            end: () => controller.close(),
            sent: new Map(),
            had: new Set(lastEventId.slice(0, longestId).split(".")),
            isNew: true,
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

  /** Ends the streams that show private data of a session. */
  endOf(session: string): void {
    for (const stream of this.#streams)
      if (stream.session === session) {
        stream.end();
        this.#streams.delete(stream);
      }
    this.#rest();
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
    // If Redis takes longer than a tick, the tick is skipped.
    if (this.#looking) return;
    this.#looking = true;
    try {
      this.#tick++;
      const looks = new Map<string, Promise<{ readonly seen: unknown } | null>>();
      const isDue = (stream: Stream, { everyTicks }: Watch): boolean => stream.isNew || this.#tick % everyTicks === 0;
      for (const stream of this.#streams)
        for (const one of stream.watches)
          if (isDue(stream, one) && !looks.has(one.key))
            looks.set(
              one.key,
              one.look().then(
                (seen) => ({ seen }),
                // Redis does not answer: the parts stay as they are, and the bar shows the outage.
                () => null,
              ),
            );
      const audit = await this.#auditor.look();
      for (const stream of this.#streams) {
        const parts: Written[] = [];
        // In an outage reads take long and ticks are rare, so the bar is sent at every tick.
        if (this.#tick % barTicks === 0 || stream.isNew || !audit)
          parts.push(...written(barParts(audit, this.#auditor.silentMs)));
        for (const one of stream.watches) {
          const look = isDue(stream, one) ? await looks.get(one.key) : null;
          if (look) parts.push(...partsOf(one, look.seen));
        }
        this.#deliver(stream, parts);
      }
    } finally {
      this.#looking = false;
    }
  }

  #deliver(stream: Stream, parts: readonly Written[]): void {
    const { sent, had } = stream;
    const changed = parts
      .filter(([target, content]) => sent.get(target)?.content !== content)
      .map(([target, content]) => ({ target, content, digest: digestOf(target, content) }));
    // `had` is valid only for the first content of a part, which may change and change back later.
    const news = changed.filter(({ target, digest }) => sent.has(target) || !had.has(digest));
    const known = new Map([...sent, ...changed.map((part) => [part.target, part] as const)]);
    if (news.length > 0) {
      const id = [...known.values()].map(({ digest }) => digest).join(".");
      const data = news
        .map(({ target, content }) => partial(target, content))
        .join("")
        .replaceAll(/[\r\n]+/g, " ");
      if (!stream.send(`id: ${id}\ndata: ${data}\n\n`)) return;
    } else if (this.#tick % pingTicks === 0) stream.send(": still here\n\n");
    stream.isNew = false;
    stream.sent = known;
  }
}
