import type { CliArgument, CliCommand } from "@kit/core/toolkit";
import { editJob, rescheduleJob } from "../manage/index.js";
import { isQueue, unknownQueue } from "./inspect.js";

const args: readonly CliArgument[] = [
  { name: "queue", about: "name of the queue", listedIn: "queues" },
  { name: "id", about: "id of the job; kit queue list QUEUE shows ids" },
];

const waiting: readonly unknown[] = ["ready", "delayed"];

export const rescheduleCommand: CliCommand = {
  path: "queue reschedule",
  about: "move the due time of a ready or delayed job",
  args,
  options: [{ name: "delay-ms", takes: "integer", about: "milliseconds from now" }],
  buttons: [{ thing: "job", text: "Reschedule", when: ({ state }) => waiting.includes(state) }],
  run: async (call, queue: string, id: string) => {
    const { redis, prefix, integer, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const delayMs = integer("delay-ms");
    if (delayMs === undefined) throw new TypeError("Pass --delay-ms: when the job is due, in milliseconds from now");
    const state = await rescheduleJob(redis, { queue, prefix }, id, { delayMs });
    await output.report({
      data: { queue, id, state },
      facts: [["state", state === "none" ? "unknown" : state]],
      isUnknown: state === "none",
      hasProblem: state !== "none" && !waiting.includes(state),
    });
    return undefined;
  },
};

const parsed = (json: string): unknown => {
  try {
    return JSON.parse(json) as unknown;
  } catch {
    throw new TypeError("Expected --data to be JSON");
  }
};

export const editCommand: CliCommand = {
  path: "queue edit",
  about: "change the data, priority, attempts or time limit of a ready, delayed or dead job",
  args,
  options: [
    { name: "data", takes: "text", about: "new data, as JSON, also for a job with binary data; no schema is checked" },
    { name: "priority", takes: "integer", about: "new priority; lower numbers start first" },
    { name: "max-attempts", takes: "integer", about: "how often it may run" },
    { name: "timeout-ms", takes: "integer", about: "how long its handler can run, in milliseconds" },
  ],
  buttons: [{ thing: "job", text: "Edit", when: ({ state }) => state === "dead" || waiting.includes(state) }],
  run: async (call, queue: string, id: string) => {
    const { redis, prefix, text, integer, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const json = text("data");
    const data = json === undefined ? undefined : parsed(json);
    const [priority, maxAttempts, timeoutMs] = [integer("priority"), integer("max-attempts"), integer("timeout-ms")];
    const outcome = await editJob(redis, { queue, prefix }, id, { data, priority, maxAttempts, timeoutMs });
    await output.report({
      data: { queue, id, outcome },
      facts: [["outcome", outcome === "none" ? "unknown" : outcome]],
      isUnknown: outcome === "none",
      hasProblem: outcome !== "none" && outcome !== "edited",
    });
    return undefined;
  },
};
