import { join } from "node:path";
import { createChat } from "@kit/chat";
import { connect } from "@kit/core";
import { slotOf } from "@kit/core/toolkit";
import { eventually, type RedisServer } from "@kit/testing";
import { Lab, type Surroundings } from "../../lab/lab.js";
import { workspaceFolder } from "../../lab/paths.js";
import { Worker } from "../../lab/worker.js";
import type { PlainLabOptions } from "../../plain/lab.js";
import type { Span } from "../../records.js";
import { isWork } from "./checker.js";
import {
  bodyBytes,
  type End,
  type Given,
  type LogRecord,
  type LookRecord,
  type RunHistory,
  type Spec,
} from "./history.js";

const prefix = "kit";
const mailbox = "errands";
/** Each process reads for one of these; the last is that of all listeners. */
const members = ["ann", "bob", "cid", "ear"];
const listener = "ear";

const specs: readonly Spec[] = [
  { name: "plain", retain: { count: 1_000_000 }, whenFull: "drop" },
  { name: "short", retain: { count: 80 }, whenFull: "drop" },
  { name: "light", retain: { bytes: 90 * bodyBytes }, whenFull: "drop" },
  { name: "shared", retain: { count: 300, readByAll: true }, whenFull: "refuse" },
];

const nameOf = (body: string): string => body.replace(/\.+$/, "");

/** A server, processes that chat, and what is done to them. */
export class ChatLab extends Lab {
  /** Of messages of the mailbox. */
  readonly leaseMs: number;
  readonly #deadlineMs = 400;
  readonly #dataLosses: Span[] = [];
  readonly #options: PlainLabOptions;
  readonly #client: ReturnType<RedisServer["client"]> | undefined;
  readonly #readers = new Map<Worker, string>();
  /** By message and delivery, who took it. */
  readonly #takers = new Map<string, string>();
  /** When the newest call began that went well, by what it was about. */
  readonly #wellSince = new Map<string, number>();

  constructor(options: PlainLabOptions, around: Surroundings) {
    super(options, around);
    this.#options = options;
    this.leaseMs = [300, 400, 500][Math.floor(this.random() * 3)] ?? 400;
    this.#client = this.server.mode === "sentinel" ? undefined : this.server.client();
  }

  /** Whoever serves the keys now. */
  async #ask(command: string, ...args: string[]): Promise<unknown> {
    if (!this.#client) return await (await this.server.master()).call(command, ...args);
    const client = this.#client;
    if (this.server.mode === "single") return await client.call(command, ...args);
    return await eventually(() => client.call(command, ...args));
  }

  spawn(): Worker {
    const number = this.all.length + 1;
    const readers = members.filter((member) => member !== listener);
    const living = this.workers.map((worker) => this.#readers.get(worker));
    const readersOf = (member: string): number => living.filter((one) => one === member).length;
    const reader = readers.toSorted((one, other) => readersOf(one) - readersOf(other))[0] ?? "";
    const settings = {
      url: this.url,
      lookUrl: this.server.url,
      prefix,
      specs,
      mailbox,
      members,
      reader,
      listener,
      bodyBytes,
      leaseMs: this.leaseMs,
      deadlineMs: this.#deadlineMs,
      seed: this.#options.seed + 1_000 * number,
      restMs: 20,
      module: this.#options.module,
    };
    const program = join(workspaceFolder, "src/workloads/chat/worker.mjs");
    const { folder, workerEnv } = this.around;
    const worker = new Worker(program, `w${String(number)}`, folder, settings, workerEnv);
    this.#readers.set(worker, reader);
    worker.onLine = (line) => this.#hear(worker, JSON.parse(line) as LogRecord);
    this.all.push(worker);
    return worker;
  }

  #hear({ id }: Worker, record: LogRecord): void {
    if (record.kind !== "call") return;
    if (record.what === "take")
      for (const one of record.taken ?? []) this.#takers.set(leaseOf(one.seq, one.deliveries), id);
    const work = isWork(record);
    if (work !== undefined) this.#wellSince.set(work, Math.max(this.#wellSince.get(work) ?? 0, record.startedAt));
  }

  // ── leases of the mailbox ─────────────────────────────────────────────────────────────────────────────────────────

  /** Of each lease that has not ended its holder, as far as that has said so. */
  async #leases(): Promise<Map<string, string | undefined>> {
    this.logged("call");
    const script = `local time = redis.call('TIME') return { time[1] * 1000 + math.floor(time[2] / 1000), redis.call('HGETALL', KEYS[1]) }`;
    const key = `${prefix}:chat:{${String(slotOf(mailbox) % 16)}}:mailbox:${mailbox}`;
    const [now, flat] = (await this.#ask("EVAL", script, "1", key)) as [number, string[]];
    const leases = new Map<string, string | undefined>();
    for (const [index, value] of flat.entries()) {
      const [deadline, deliveries] = value.split(" ").map(Number);
      const field = flat[index - 1];
      if (index % 2 === 0 || field === undefined || field === "" || (deadline ?? 0) <= now) continue;
      const lease = leaseOf(Number(field), deliveries ?? 0);
      leases.set(lease, this.#takers.get(lease));
    }
    return leases;
  }

  async victim(): Promise<Worker> {
    return await eventually(
      async () => {
        const holders = new Set((await this.#leases()).values());
        const worker = this.pick(this.workers.filter(({ id }) => holders.has(id)));
        if (!worker) throw new Error("nobody has a message of the mailbox");
        return worker;
      },
      { intervalMs: 2 },
    );
  }

  async claimsOf({ id }: Worker): Promise<ReadonlySet<string>> {
    return new Set([...(await this.#leases())].flatMap(([lease, holder]) => (holder === id ? [lease] : [])));
  }

  async died(worker: Worker): Promise<number> {
    return (await this.claimsOf(worker)).size;
  }

  lostData(from: number, to: number): void {
    this.#dataLosses.push({ from, to });
  }

  async resumed(at: number): Promise<void> {
    const wanted = ["fetch", "take", ...specs.map(({ name }) => `send ${name}`)];
    await eventually(
      () => {
        this.logged("call");
        const idle = wanted.filter((work) => (this.#wellSince.get(work) ?? 0) <= at);
        if (idle.length > 0) throw new Error(`no ${idle.join()} goes well`);
      },
      { timeoutMs: 15_000 },
    );
  }

  // ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async begin(workers: number): Promise<void> {
    for (let i = 0; i < workers; i++) this.spawn();
    await Promise.all(this.workers.map((worker) => worker.started()));
    await this.resumed(0);
  }

  async end(isStuck: boolean): Promise<RunHistory> {
    const workers = await this.dismiss<LogRecord>();
    const looks = workers.flatMap(({ records }) => records.filter((record) => record.kind === "access"));
    const left = isStuck ? { ends: new Map<string, End>(), drained: [] } : await this.#lookAtTheEnd(looks);
    return {
      ...left,
      isWhole: this.setting === "kept",
      specs,
      mailbox,
      leaseMs: this.leaseMs,
      workers,
      heals: this.marks.map(({ kind, at, dueMs }) => ({ kind, at, dueMs })),
      dataLosses: this.#dataLosses,
      echoes: this.around.tap?.echoes.length ?? 0,
    };
  }

  async #lookAtTheEnd(looks: readonly LookRecord[]): Promise<Pick<RunHistory, "ends" | "drained">> {
    await using client = await connect(this.server.url);
    await using chat = createChat<string>(client, { prefix });
    const ends = new Map<string, End>();
    for (const { name } of specs) {
      // A server that lost its data last of all has no chats.
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
    for (;;) {
      const { length, leased } = await box.stats();
      const messages = length === 0 ? [] : await box.take({ limit: 100, waitMs: 1_000 });
      // What counts, and is with nobody, yet cannot be had, is lost: the checker says so.
      if (messages.length === 0 && leased === 0) break;
      for (const message of messages) {
        drained.push(nameOf(message.body));
        await message.ack();
      }
    }
    return { ends, drained };
  }

  override async stop(): Promise<void> {
    this.#client?.disconnect();
    await super.stop();
  }
}

const leaseOf = (seq: number, deliveries: number): string => `${String(seq)} for the ${String(deliveries)}. time`;
