import { KitError, KitUnknownOutcomeError } from "@kit/core";
import { type ClientContext, Deadline, newToken, noAnswer, reading } from "@kit/core/toolkit";
import type { NewJob } from "../add/producer.js";
import { blobOf } from "../job/payload.js";
import { planned } from "../job/words.js";
import type { QueueKeys } from "../job/keys.js";
import type { QueueCommands } from "../store/commands.js";
import { isUnknown, wallMs } from "../store/wall.js";
import { stageFlow, startFlow, type StartReply } from "./scripts.js";

/** The maximum number of jobs in a slice, and the approximate maximum size of their data in bytes. */
const maxJobs = 250;
const maxBytes = 512 * 1_024;

/** The slices of a flow, as `stageFlow.lua` keeps them. */
export const slicesOf = function* (jobs: readonly NewJob[], stamp: string): Generator<Buffer> {
  let [plan, bytes]: [string[], number] = [[], 0];
  let blobs: Buffer[] = [];
  const slice = (): Buffer => Buffer.concat([Buffer.from(`${plan.join("\n")}\n\n`), ...blobs]);
  for (const { id = "", words, head, payload } of jobs) {
    const blob = Buffer.from(blobOf(stamp, head, payload));
    if (plan.length === maxJobs || (plan.length > 0 && bytes + blob.length > maxBytes)) {
      yield slice();
      [plan, blobs, bytes] = [[], [], 0];
    }
    plan.push(`${id}${words}${planned("bytes", blob.length)}`);
    blobs.push(blob);
    bytes += blob.length;
  }
  yield slice();
};

/** Moves the remaining slices of a flow that has started. Another client can move a slice at the same time without an error. */
const moveRest = async (context: ClientContext, keys: QueueKeys, token: string): Promise<void> => {
  for (let number = -1, isOver = false; !isOver;) {
    const { next } = await startFlow.run(context, keys, { token, number, total: 0, root: "" });
    isOver = next === -1;
    number = next;
  }
};

/** The tokens of flows that have started and still have slices. Their clients are moving the slices, or have died. */
export const unfinished = async (context: ClientContext, keys: QueueKeys): Promise<readonly string[]> => {
  const what = reading("Reading the unfinished flows", Deadline.in(2_000));
  const found = await context.executor.run("hget", [keys.staged, ""], what);
  return typeof found === "string" ? found.split(" ") : [];
};

/** Moves the remaining slices of these flows. */
const finish = async (context: ClientContext, keys: QueueKeys, tokens: readonly string[]): Promise<void> => {
  for (const token of tokens) await moveRest(context, keys, token);
};

/** Moves the remaining slices of all unfinished flows. */
export const finishAll = async (context: ClientContext, keys: QueueKeys): Promise<void> =>
  await finish(context, keys, await unfinished(context, keys));

/**
 * Adds a flow that is too large for one step. The server stores the slices separately until all have arrived. Then the first one starts the
 * flow. Resolves with false if a job has the root's id. `ownRoot`: that id, if the caller chose it.
 */
export const addSlices = async (
  commands: QueueCommands,
  jobs: readonly NewJob[],
  ownRoot: string | undefined,
): Promise<boolean> => {
  const { context, keys } = commands;
  const token = newToken();
  const root = ownRoot ?? "";
  await commands.open();
  const stamp = Math.round(wallMs() + commands.offsetMs).toString(36);
  let total = 0;
  try {
    for (const slice of slicesOf(jobs, stamp)) {
      const { others, isTaken } = await commands.run(stageFlow, { token, number: total++, root, slice });
      // This flow may be among them, started by a call whose client died.
      if (total === 1) await finish(context, keys, others);
      if (isTaken) return false;
    }
  } catch (error) {
    if (!isUnknown(error)) throw error;
    throw noAnswer(context.client, "the flow was not added", "", error as Error);
  }
  const move = (number: number): Promise<StartReply> => {
    const args = { token, number, total, root };
    if (number < total - 1) return commands.run(startFlow, args);
    return commands.store(startFlow, keys, args, Deadline.in(commands.deadlineMs));
  };
  const first = await move(0);
  if (first.isTaken) return false;
  if (first.next === -1 && total > 1)
    throw new KitUnknownOutcomeError("The server no longer has the flow: it may or may not have been added", undefined);
  try {
    for (let { next } = first; next !== -1;) ({ next } = await move(next));
  } catch (error) {
    void retry(commands, token);
    const why = KitError.is(error) ? error.message : String(error);
    throw new KitUnknownOutcomeError(
      `The flow was added, but some of its jobs do not run yet: ${why}`,
      undefined,
      error,
    );
  }
  return true;
};

/** Moves slices until the queue has all jobs of the flow, or is closed. */
const retry = async (commands: QueueCommands, token: string): Promise<void> => {
  const { context, keys, life } = commands;
  for (let attempt = 1; !life.signal.aborted; attempt++)
    try {
      await moveRest(context, keys, token);
      commands.outage.worked("starting a flow");
      return;
    } catch (error) {
      if (life.signal.aborted) return;
      await commands.failed("starting a flow", "Starting the jobs of a flow", error, attempt);
    }
};
