import { createChat } from "@kit/chat";
import { connect } from "@kit/core";
import { Lab, prefix } from "../../lab/lab.js";
import type { Echo } from "../../lab/tap.js";
import type { Progress } from "../../work.js";
import { kindsOf, progressIn } from "./checker.js";
import {
  bodyBytes,
  type End,
  type Given,
  type LogRecord,
  type LookRecord,
  type RunHistory,
  type Spec,
} from "./history.js";

const mailbox = "errands";
/** Members to read for. Each process fetches for one of them and listens for the last. */
const readers = ["ann", "bob", "cid"];
const listener = "ear";
const members = [...readers, listener];

const specs: readonly Spec[] = [
  { name: "plain", retain: { count: 1_000_000 }, whenFull: "drop" },
  { name: "short", retain: { count: 80 }, whenFull: "drop" },
  { name: "light", retain: { bytes: 90 * bodyBytes }, whenFull: "drop" },
  { name: "shared", retain: { count: 300, readByAll: true }, whenFull: "refuse" },
];

const nameOf = (body: string): string => body.replace(/\.+$/, "");

/** The messages that a copy of `take` delivered. No other script has as many keys and arguments. */
const deliveriesIn = ({ command: [, , keys, ...operands], reply }: Echo): string[] => {
  if (keys !== "6" || operands.length !== 11) return [];
  const [, , flat = []] = reply as [number, number, (string | number)[]?];
  return flat.flatMap((deliveries, at) =>
    at % 7 === 4 ? [`${nameOf(String(flat[at - 1]))} ${String(deliveries)}`] : [],
  );
};

/** A server, processes that chat, and the injections. */
export class ChatLab extends Lab<LogRecord> {
  /** The lease of messages in the mailbox. */
  override readonly leaseMs: number = [300, 400, 500][Math.floor(this.random() * 3)] ?? 400;
  override readonly deadlineMs = 400;
  readonly #readers = new Map<number, string>();

  protected override progressIn(record: LogRecord): readonly Progress[] {
    return progressIn(record);
  }

  protected override awaited(): readonly string[] {
    return kindsOf(specs);
  }

  protected override settings(): object {
    const alive = this.all.flatMap((worker, index) => (this.workers.includes(worker) ? this.#readers.get(index) : []));
    const readersOf = (member: string): number => alive.filter((one) => one === member).length;
    const [reader = ""] = readers.toSorted((one, other) => readersOf(one) - readersOf(other));
    this.#readers.set(this.all.length, reader);
    const own = { reader, listener, members, specs, mailbox, bodyBytes };
    return { ...own, ...this.lookSettings, restMs: 20 };
  }

  async end(isStuck: boolean): Promise<RunHistory> {
    const facts = await this.facts();
    const looks = facts.workers.flatMap(({ records }) => records.filter((record) => record.kind === "access"));
    const left = isStuck ? { ends: new Map<string, End>(), drained: [] } : await this.#lookAtTheEnd(looks);
    const echoed = new Set(this.around.tap?.echoes.flatMap(deliveriesIn));
    return { ...facts, ...left, specs, mailbox, echoed };
  }

  async #lookAtTheEnd(looks: readonly LookRecord[]): Promise<Pick<RunHistory, "ends" | "drained">> {
    await using client = await connect(this.ownUrl);
    await using chat = createChat<string>(client, { prefix });
    const ends = new Map<string, End>();
    for (const { name } of specs) {
      // If the last fault lost the server's data, there are no chats.
      const inspection = await chat.inspect(name).catch(() => undefined);
      const look = looks.findLast((one) => one.name === name);
      if (!inspection || !look) continue;
      const messages: Given["messages"][number][] = [];
      for (let hasNewer = true, after = 0; hasNewer; after = messages.at(-1)?.[0] ?? after) {
        const page = await chat.history(name, { after, limit: 1_000 });
        messages.push(...page.messages.map(({ seq, at, body }) => [seq, at, nameOf(body)] as const));
        hasNewer = page.hasNewer && page.messages.length > 0;
      }
      const { head } = inspection;
      const positions = Object.fromEntries(
        (await chat.members(name)).members.map(({ member, position }) => [member, position]),
      );
      ends.set(name, {
        look: { ...look, head, floor: head - inspection.messages, positions },
        messages,
        unread: {},
        fetched: {},
      });
    }
    for (const member of members) {
      const fetched = new Map<string, number>();
      for (let token: string | undefined, more = true; more;) {
        const page = await chat.fetch(member, { token, limit: 5_000, maxBytes: 100_000_000 });
        for (const one of page.chats) fetched.set(one.chat, (fetched.get(one.chat) ?? 0) + one.messages.length);
        ({ token, more } = page);
      }
      const unread = await chat.unread(member);
      for (const [name, end] of ends) {
        Object.assign(end.unread, { [member]: unread.get(name) ?? 0 });
        Object.assign(end.fetched, { [member]: fetched.get(name) ?? 0 });
      }
    }
    const drained: string[] = [];
    const box = chat.mailbox(mailbox);
    // Only where nothing is lost: where the server's clock was set back, leases last longer by as much.
    while (this.losesNothing) {
      const { length, leased } = await box.stats();
      const messages = length === 0 ? [] : await box.take({ limit: 100, waitMs: 1_000 });
      // Messages that are counted, not leased and cannot be taken are lost. The checker reports them.
      if (messages.length === 0 && leased === 0) break;
      for (const message of messages) {
        drained.push(nameOf(message.body));
        await message.ack();
      }
    }
    return { ends, drained };
  }
}
