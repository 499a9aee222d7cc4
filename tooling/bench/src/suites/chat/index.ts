import { pause } from "@kit/core/toolkit";
import type { Team, Worker } from "../../lab.js";
import { percentile } from "../../statistics.js";
import type { Case, Check, Entry, Goal, Measurement, Suite } from "../../suite.js";
import { chatImplementation, type Look } from "./implementations.js";
import type { MakeTask, RunResult, RunTask } from "./jobs.js";

const firstOf = ({ workers }: Team): Worker => {
  const [worker] = workers;
  if (!worker) throw new Error("no process");
  return worker;
};

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const made = (chats = 1, messages = 0, others = 0): MakeTask => ({ chats, messages, others });
const goal = (text: string, ...checks: readonly Check[]): Goal => ({ text, checks });

/** Measures calls per second of a number of clients, each with a number of calls in flight. */
const rateCase = (
  entry: Pick<Entry, "name" | "about" | "goal">,
  implementations: readonly string[],
  task: Omit<RunTask, "ms">,
  { processes = 1, chats = 1 }: { readonly processes?: number; readonly chats?: number } = {},
): Case => ({
  entries: [{ ...entry, unit: `${task.what}s/s`, better: "higher" }],
  implementations: implementations.map(chatImplementation),
  rounds: Infinity,
  processes,
  setup: undefined,
  warmUp: async (team, scale) => {
    await firstOf(team).ask("make", made(chats));
    await team.all("run", { ...task, ms: 800 * scale } satisfies RunTask);
  },
  measure: {
    alone: async (team, lab, scale): Promise<Measurement> => {
      await firstOf(team).ask("make", made(chats));
      const watched = await lab.watch();
      const results = await team.all<RunResult>("run", { ...task, ms: 1_000 * scale } satisfies RunTask);
      const { cpuMicros } = await watched();
      const operations = sum(results.map((result) => result.operations));
      const seconds = Math.max(...results.map(({ elapsedMs }) => elapsedMs)) / 1_000;
      const commands = sum(results.map((result) => result.sent)) / operations;
      const details = { commands, serverMicros: cpuMicros / operations };
      return { values: { [entry.name]: operations / seconds }, operations: 0, details };
    },
  },
});

const backlogName = "backlog fetch+ack";
const backlog: Case = {
  entries: [
    {
      name: backlogName,
      unit: "messages/s",
      better: "higher",
      about: "10,000 messages of 100 B of one chat, read and acknowledged",
      goal: goal(
        "≥ 0.7 × XREADGROUP+XACK, ≥ 2 × classic",
        { than: "floor", atLeast: 0.7 },
        { than: "classic", atLeast: 2 },
      ),
    },
  ],
  implementations: ["kit", "classic", "raw stream"].map(chatImplementation),
  rounds: Infinity,
  processes: 1,
  setup: undefined,
  warmUp: async (team) => {
    await firstOf(team).ask("make", made(1, 5_000));
    await firstOf(team).ask("readAll");
  },
  measure: {
    alone: async (team, _lab, scale): Promise<Measurement> => {
      await firstOf(team).ask("make", made(1, Math.ceil(10_000 * scale)));
      const read = await firstOf(team).ask<{ messages: number; elapsedMs: number }>("readAll");
      return { values: { [backlogName]: (1_000 * read.messages) / read.elapsedMs }, operations: 0 };
    },
  },
};

const bytesName = "bytes per message";
const bytes: Case = {
  entries: [
    {
      name: bytesName,
      unit: "B",
      better: "lower",
      about: "a body of 100 B in the chat's messages; in all: with the client ids, which are kept for a while",
      goal: goal("≥ 1.8 × classic", { than: "classic", atLeast: 1.8 }),
    },
  ],
  implementations: ["kit", "classic", "raw stream"].map(chatImplementation),
  rounds: 1,
  processes: 1,
  setup: undefined,
  measure: {
    alone: async (team, { server }, scale): Promise<Measurement> => {
      const messages = Math.ceil(20_000 * scale);
      const used = async (): Promise<number> =>
        Number(/^used_memory:(\d+)/m.exec(String(await server.call("INFO", "memory")))?.[1]);
      await firstOf(team).ask("make", made());
      const before = await used();
      await firstOf(team).ask("make", made(1, messages));
      const inAll = ((await used()) - before) / messages;
      const key = await firstOf(team).ask<string>("messagesKey");
      const own = Number(await server.call("MEMORY", "USAGE", key, "SAMPLES", "0")) / messages;
      return { values: { [bytesName]: own }, operations: 0, details: { inAll } };
    },
  },
};

const [idleName, wakeName] = ["idle wait commands", "wake p99"];
const waiting: Case = {
  entries: [
    {
      name: idleName,
      unit: "commands in 10 s",
      better: "lower",
      about: "sent by a process that waits for a member of 100 chats, on its one blocked connection",
      goal: goal("≤ 2 per blocked connection", { atMost: 2, of: "max" }),
    },
    {
      name: wakeName,
      unit: "ms",
      better: "lower",
      about: "from the call of send to the end of a wait in the same process, on two connections",
      goal: goal("≤ 3 ms", { atMost: 3 }),
    },
  ],
  implementations: [chatImplementation("kit")],
  rounds: 5,
  processes: 2,
  setup: undefined,
  isFinal: true,
  measure: {
    alone: async (team, lab, scale): Promise<Measurement> => {
      const [waiter, waker] = team.workers as readonly [Worker, Worker];
      const look: RunTask = { what: "idle", clients: 1, flights: 1, ms: 1 };
      await waiter.ask("make", made(100));
      await team.all("run", look);
      await waiter.ask("wait");
      await pause(500);
      const watched = await lab.watch();
      await pause(10_000 * scale);
      const { commands } = await watched();
      await waker.ask("wake", { times: 50 });
      const waits = await waker.ask<readonly number[]>("wake", { times: Math.ceil(300 * scale) });
      const values = { [idleName]: commands, [wakeName]: percentile(waits, 0.99) };
      return { values, operations: 0, details: { p50: percentile(waits, 0.5) } };
    },
  },
};

/** The cost of a call with 10,000 members or chats, divided by its cost with 100. `unread of all` costs per chat. */
const growthCase = (name: string, looks: readonly Look[], sizeOf: (count: number) => MakeTask): Case => ({
  entries: looks.map((what) => ({
    name: `${name}: ${what}`,
    unit: what === "unread of all" ? "× its cost by chat at 100" : "× its cost at 100",
    better: "lower",
    about: "one call after the other, for one chat: its members, a member's unread, or send and fetch of a message",
    goal: goal("≤ 3", { atMost: 3 }),
  })),
  implementations: [chatImplementation("kit")],
  rounds: 5,
  processes: 1,
  setup: undefined,
  measure: {
    alone: async (team, lab, scale): Promise<Measurement> => {
      const worker = firstOf(team);
      const costs = async (count: number): Promise<ReadonlyMap<Look, number>> => {
        await lab.clear();
        await worker.ask("make", sizeOf(count));
        const each = new Map<Look, number>();
        for (const what of looks) {
          const task = { what, clients: 1, flights: 1, ms: 300 * scale } satisfies RunTask;
          await worker.ask("run", { ...task, ms: 100 * scale });
          const { operations, elapsedMs } = await worker.ask<RunResult>("run", task);
          each.set(what, elapsedMs / operations / (what === "unread of all" ? count : 1));
        }
        return each;
      };
      const [few, many] = [await costs(100), await costs(Math.ceil(10_000 * scale))];
      const of = (from: ReadonlyMap<Look, number>, what: Look): number => from.get(what) ?? NaN;
      const values = looks.map((what) => [`${name}: ${what}`, of(many, what) / of(few, what)] as const);
      const details = looks.map((what) => [`${what} ms`, of(many, what)] as const);
      return { values: Object.fromEntries(values), operations: 0, details: Object.fromEntries(details) };
    },
  },
});

const all = ["kit", "classic", "raw stream"];
const looks: readonly Look[] = ["fetch", "unread", "members"];
const atLeast = (than: string, ratio: number): Check => ({ than, atLeast: ratio });

export const suite: Suite = {
  package: "chat",
  cases: [
    rateCase(
      {
        name: "send 1 in flight",
        about: "100 B to one chat, one after the other",
        goal: goal("≥ 5 × classic, ≥ 0.75 × raw XADD", atLeast("classic", 5), atLeast("floor", 0.75)),
      },
      all,
      { what: "send", clients: 1, flights: 1 },
    ),
    rateCase(
      {
        name: "send 16 clients one chat",
        about: "100 B, one at a time by each of 8 connections in each of 2 processes",
        goal: goal("≥ 10 × classic", atLeast("classic", 10)),
      },
      all,
      { what: "send", clients: 8, flights: 1 },
      { processes: 2 },
    ),
    rateCase(
      {
        name: "send 64 in flight",
        about: "100 B to one chat, 64 calls at a time on one connection",
        goal: goal("≥ 0.65 × raw XADD", atLeast("floor", 0.65)),
      },
      ["kit", "raw stream"],
      { what: "send", clients: 1, flights: 64 },
    ),
    ...[100, 1_000].map((chats) =>
      rateCase(
        {
          name: `idle fetch G=${String(chats)}`,
          about: `a member of ${String(chats)} chats, none of which has anything new`,
          goal: goal(`≥ ${chats === 100 ? "5" : "10"} × classic`, atLeast("classic", chats === 100 ? 5 : 10)),
        },
        ["kit", "classic"],
        { what: "idle", clients: 1, flights: 1 },
        { chats },
      ),
    ),
    backlog,
    bytes,
    waiting,
    growthCase("10,000 members in one chat", looks, (count) => made(1, 0, count)),
    growthCase("10,000 chats of one member", [...looks, "unread of all"], (count) => made(count)),
  ],
};
