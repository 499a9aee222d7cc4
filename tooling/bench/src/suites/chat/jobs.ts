import { pause } from "@kit/core/toolkit";
import { now } from "@tooling/lab";
import { sent } from "../../sent.js";
import type { Jobs, OpenJobs } from "../../suite.js";
import { type Look, openTalker, someBody, type Talker } from "./implementations.js";

export interface MakeTask {
  readonly chats: number;
  readonly others: number;
  /** Messages sent to chat 0. */
  readonly messages: number;
}

export interface RunTask {
  readonly what: "send" | "idle" | Look;
  /** Connections, each with `flights` calls at a time. */
  readonly clients: number;
  readonly flights: number;
  readonly ms: number;
}

export interface RunResult {
  readonly operations: number;
  readonly elapsedMs: number;
  readonly sent: number;
}

export const jobs: OpenJobs = async ({ implementation, url }) => {
  const talkers: Talker[] = [await openTalker(implementation, url)];
  const [first] = talkers as [Talker];
  const bodies = Array.from({ length: 10_000 }, someBody);
  return {
    ready: () => Promise.resolve(),

    make: async ({ chats, others, messages }: MakeTask): Promise<void> => {
      await first.make(chats, others);
      for (let from = 0; from < messages; from += 500)
        await Promise.all(bodies.slice(0, Math.min(500, messages - from)).map((body) => first.send("0", body)));
    },

    run: async ({ what, clients, flights, ms }: RunTask): Promise<RunResult> => {
      while (talkers.length < clients) talkers.push(await openTalker(implementation, url));
      const before = sent();
      const startedAt = now();
      let operations = 0;
      const callOf = (talker: Talker): (() => Promise<unknown>) => {
        if (what === "send") return () => talker.send("0", bodies[operations % bodies.length] ?? "");
        const call = what === "idle" ? () => talker.idle() : talker.look?.[what];
        if (!call) throw new Error(`the implementation has no ${what}`);
        return call;
      };
      const loop = async (talker: Talker): Promise<void> => {
        for (const call = callOf(talker); now() < startedAt + ms; operations++) await call();
      };
      const loops = talkers.slice(0, clients).flatMap((one) => Array.from({ length: flights }, () => loop(one)));
      await Promise.all(loops);
      return { operations, elapsedMs: now() - startedAt, sent: sent() - before };
    },

    readAll: async (): Promise<{ readonly messages: number; readonly elapsedMs: number }> => {
      const startedAt = now();
      return { messages: await first.readAll(), elapsedMs: now() - startedAt };
    },

    messagesKey: () => Promise.resolve(first.messagesKey("0")),

    /** Resolves with the milliseconds from each send to the end of its wait. */
    wake: async ({ times }: { readonly times: number }): Promise<readonly number[]> => {
      const other = await openTalker(implementation, url);
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
    wait: (): Promise<void> => {
      void first.wait?.();
      return Promise.resolve();
    },
  } satisfies Jobs;
};
