import { pause } from "@kit/core/toolkit";
import { type RateSettings, rateCase, rateOf, runAll, steadyCases } from "../../rates.js";
import { percentile } from "../../statistics.js";
import { atLeast, atMost, type Case, type Check, type Suite } from "../../suite.js";
import { implementations, type Look } from "./implementations.js";
import type { ChatTask, MakeTask } from "./jobs.js";

const all = implementations.pick(["kit", "classic", "raw stream"]);
const ours = implementations.pick(["kit"]);

const made = (chats = 1, messages = 0, others = 0): MakeTask => ({ chats, messages, others });

/** Calls per second of a number of clients, each with a number of calls in flight. */
const chatCase = (
  name: string,
  about: string,
  goal: readonly Check[],
  task: ChatTask,
  { chats = 1, ...settings }: Omit<RateSettings, "task"> & { readonly chats?: number },
): Case =>
  rateCase(
    { name, unit: `${task.what}s/s`, about, goal },
    { ...settings, task, prepare: (team) => team.ask("make", made(chats)) },
  );

const backlog: Case = {
  entries: [
    {
      name: "backlog fetch+ack",
      unit: "messages/s",
      about: "10,000 messages of 100 B of one chat, read and acknowledged",
      goal: atLeast({ floor: 0.7, classic: 2 }),
    },
  ],
  ...all,
  warmUp: async (team) => {
    await team.ask("make", made(1, 5_000));
    await team.ask("readAll");
  },
  prepare: (team, _lab, scale) => team.ask("make", made(1, Math.ceil(10_000 * scale))),
  measure: async (team) => {
    const { messages, elapsedMs } = await team.ask<{ messages: number; elapsedMs: number }>("readAll");
    return { values: [(1_000 * messages) / elapsedMs] };
  },
};

const bytes: Case = {
  entries: [
    {
      name: "bytes per message",
      unit: "B",
      about: "a body of 100 B in the chat's messages; in all: with the client ids, which are kept for a while",
      goal: atLeast({ classic: 1.8 }),
    },
  ],
  ...all,
  rounds: 1,
  measure: async (team, lab, scale) => {
    const messages = Math.ceil(20_000 * scale);
    await team.ask("make", made());
    const before = await lab.usedBytes();
    await team.ask("make", made(1, messages));
    const inAll = ((await lab.usedBytes()) - before) / messages;
    const key = await team.ask<string>("messagesKey");
    const own = Number(await lab.server.call("MEMORY", "USAGE", key, "SAMPLES", "0")) / messages;
    return { values: [own], details: { inAll } };
  },
};

const waiting: Case = {
  entries: [
    {
      name: "idle wait commands",
      unit: "commands in 10 s",
      about: "sent by a process that waits for a member of 100 chats, on its one blocked connection",
      goal: atMost(2, "max"),
    },
    {
      name: "wake p99",
      unit: "ms",
      about: "from the call of send to the end of a wait in the same process, on two connections",
      goal: atMost(3),
    },
  ],
  ...ours,
  rounds: 5,
  processes: 2,
  isFinal: true,
  measure: async (team, lab, scale) => {
    const [waiter, waker] = [team.worker(0), team.worker(1)];
    await waiter.ask("make", made(100));
    await runAll(team, { what: "idle", clients: 1, flights: 1 } satisfies ChatTask, 1);
    await waiter.ask("wait");
    await pause(500);
    const watched = await lab.watch();
    await pause(10_000 * scale);
    const { commands } = await watched();
    await waker.ask("wake", { times: 50 });
    const waits = await waker.ask<readonly number[]>("wake", { times: Math.ceil(300 * scale) });
    return { values: [commands, percentile(waits, 0.99)], details: { p50: percentile(waits, 0.5) } };
  },
};

/** The cost of a call with 10,000 members or chats, divided by its cost with 100. `unread of all` costs per chat. */
const growthCase = (name: string, looks: readonly Look[], sizeOf: (count: number) => MakeTask): Case => ({
  entries: looks.map((what) => ({
    name: `${name}: ${what}`,
    unit: what === "unread of all" ? "× its cost by chat at 100" : "× its cost at 100",
    about: "one call after the other, for one chat: its members, a member's unread, or send and fetch of a message",
    goal: atMost(3),
  })),
  ...ours,
  rounds: 5,
  measure: async (team, lab, scale) => {
    /** Milliseconds of each call. */
    const costs = async (count: number): Promise<number[]> => {
      await lab.clear();
      await team.ask("make", sizeOf(count));
      const each: number[] = [];
      for (const what of looks) {
        const task: ChatTask = { what, clients: 1, flights: 1 };
        await runAll(team, task, 100 * scale);
        const rate = rateOf(await runAll(team, task, 300 * scale));
        each.push(1_000 / rate / (what === "unread of all" ? count : 1));
      }
      return each;
    };
    const [few, many] = [await costs(100), await costs(Math.ceil(10_000 * scale))];
    return {
      values: many.map((ms, at) => ms / (few[at] ?? NaN)),
      details: Object.fromEntries(looks.map((what, at) => [`${what} ms`, many[at] ?? NaN])),
    };
  },
});

const looks: readonly Look[] = ["fetch", "unread", "members"];

export const suite: Suite = {
  package: "chat",
  cases: [
    chatCase(
      "send 1 in flight",
      "100 B to one chat, one after the other",
      atLeast({ classic: 5, floor: 0.75 }),
      { what: "send", clients: 1, flights: 1 },
      all,
    ),
    chatCase(
      "send 16 clients one chat",
      "100 B, one at a time by each of 8 connections in each of 2 processes",
      atLeast({ classic: 10 }),
      { what: "send", clients: 8, flights: 1 },
      { ...all, processes: 2 },
    ),
    chatCase(
      "send 64 in flight",
      "100 B to one chat, 64 calls at a time on one connection",
      atLeast({ floor: 0.65 }),
      { what: "send", clients: 1, flights: 64 },
      implementations.pick(["kit", "raw stream"]),
    ),
    ...[100, 1_000].map((chats) =>
      chatCase(
        `idle fetch G=${String(chats)}`,
        `a member of ${String(chats)} chats, none of which has anything new`,
        atLeast({ classic: chats === 100 ? 5 : 10 }),
        { what: "idle", clients: 1, flights: 1 },
        { ...implementations.pick(["kit", "classic"]), chats },
      ),
    ),
    ...steadyCases("message", "sends of 100 B to one chat", {
      ...all,
      task: { what: "send", clients: 1, flights: 1 } satisfies ChatTask,
      prepare: (team) => team.ask("make", made()),
    }),
    backlog,
    bytes,
    waiting,
    growthCase("10,000 members in one chat", looks, (count) => made(1, 0, count)),
    growthCase("10,000 chats of one member", [...looks, "unread of all"], (count) => made(count)),
  ],
};
