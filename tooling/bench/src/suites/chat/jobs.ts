import { pause } from "@kit/core/toolkit";
import { now } from "@tooling/lab";
import type { Operation } from "../../operation.js";
import type { OpenJobs } from "../../suite.js";
import { implementations, type Look, someBody, type Talker } from "./implementations.js";

export interface MakeTask {
  readonly chats: number;
  readonly others: number;
  /** Messages sent to chat 0. */
  readonly messages: number;
}

/** The same call again and again. */
export interface ChatTask {
  readonly what: "send" | "idle" | Look;
  /** Connections, each with `flights` calls at a time. */
  readonly clients: number;
  readonly flights: number;
}

export const jobs: OpenJobs = async (opening) => {
  const openTalker = (): Promise<Talker> => implementations.open(opening);
  const talkers: Talker[] = [await openTalker()];
  const [first] = talkers as [Talker];
  const bodies = Array.from({ length: 10_000 }, someBody);
  return {
    make: async ({ chats, others, messages }: MakeTask): Promise<void> => {
      await first.make(chats, others);
      for (let from = 0; from < messages; from += 500)
        await Promise.all(bodies.slice(0, Math.min(500, messages - from)).map((body) => first.send("0", body)));
    },

    operation: async ({ what, clients, flights }: ChatTask): Promise<Operation> => {
      while (talkers.length < clients) talkers.push(await openTalker());
      let body = 0;
      const callOf = (talker: Talker): (() => Promise<unknown>) => {
        if (what === "send") return () => talker.send("0", bodies[body++ % bodies.length] ?? "");
        const call = what === "idle" ? () => talker.idle() : talker.look?.[what];
        if (!call) throw new Error(`the implementation has no ${what}`);
        return call;
      };
      const calls = talkers.slice(0, clients).map(callOf);
      return { callers: clients * flights, call: (caller) => calls[caller % clients]?.() };
    },

    readAll: async (): Promise<{ readonly messages: number; readonly elapsedMs: number }> => {
      const startedAt = now();
      return { messages: await first.readAll(), elapsedMs: now() - startedAt };
    },

    messagesKey: () => first.messagesKey("0"),

    /** Resolves with the milliseconds from each send to the end of its wait. */
    wake: async ({ times }: { readonly times: number }): Promise<readonly number[]> => {
      const other = await openTalker();
      const waits: number[] = [];
      for (let turn = 0; turn < times; turn++) {
        const waiting = first.wait?.().then(now);
        await pause(5);
        const sentAt = now();
        await other.send("0", someBody());
        waits.push(((await waiting) ?? Infinity) - sentAt);
        await first.idle();
      }
      return waits;
    },

    /** Begins to wait and never ends. */
    wait: () => void first.wait?.(),
  };
};
