// Live parts of pages: one stream per page. A thing is read at most once per quarter second for all its watchers, and not
// at all without any.
import { createHash } from "node:crypto";
import type { Auditor } from "./auditor.js";
import { barParts, partial } from "./pages/live.js";

const tickMs = 250;
const barTicks = 4;
const pingTicks = 60;
const maxStreams = 200;
const longestId = 1_000;

/** A piece of a page: the id of the element that it fills, and what with. */
export type Part = readonly [target: string, content: string];

/** Something that a page shows live. Watches with the same key share their reads. */
export interface Watch<Seen = unknown> {
  readonly key: string;
  /** How many quarters of a second pass between two reads. */
  readonly everyTicks: number;
  readonly look: () => Promise<Seen>;
  readonly parts: (seen: Seen) => readonly Part[];
}

/** Keeps the type of what is seen between the two functions of a watch. */
export const watch = <Seen>(one: Watch<Seen>): Watch => one as unknown as Watch;

interface Stream {
  readonly watches: readonly Watch[];
  /** The session whose private things it shows. */
  readonly session: string | undefined;
  readonly send: (text: string) => boolean;
  readonly end: () => void;
  sent: ReadonlyMap<string, { readonly content: string; readonly digest: string }>;
  /** Digests of the parts that the page has, as it says itself, from a stream that broke. */
  readonly had: ReadonlySet<string>;
  isNew: boolean;
}

const digestOf = (target: string, content: string): string =>
  createHash("sha256").update(`${target} ${content}`).digest("base64url").slice(0, 8);

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
   * A stream of server-sent events for one page, or null when there are too many already. The id of an event names the state
   * of all parts, so a page that comes back with `lastEventId` is sent what has changed meanwhile, and nothing else.
   * With a `session`, it ends with it.
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
              // A reader that does not keep up skips states, never the newest one.
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

  /** Ends the streams that show private things of a session. */
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
                // Redis is away: the page stays as it is, and the bar shows the outage.
                () => null,
              ),
            );
      const audit = await this.#auditor.look();
      for (const stream of this.#streams) {
        const parts: Part[] = [];
        // While Redis is silent a read takes long and ticks are rare, so an outage is sent at once.
        if (this.#tick % barTicks === 0 || stream.isNew || !audit)
          parts.push(...barParts(audit, this.#auditor.silentMs));
        for (const one of stream.watches) {
          const look = isDue(stream, one) ? await looks.get(one.key) : null;
          if (look) parts.push(...one.parts(look.seen));
        }
        this.#deliver(stream, parts);
      }
    } finally {
      this.#looking = false;
    }
  }

  #deliver(stream: Stream, parts: readonly Part[]): void {
    const { sent, had } = stream;
    const changed = parts
      .filter(([target, content]) => sent.get(target)?.content !== content)
      .map(([target, content]) => ({ target, content, digest: digestOf(target, content) }));
    // A part counts as had only until it is known here: it may change and change back.
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
