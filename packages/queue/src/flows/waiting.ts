import { asKitError } from "@kit/core/toolkit";
import { addDefaults } from "../add/options.js";
import { IdSource } from "../job/ids.js";
import { blobOf } from "../job/payload.js";
import { isUnknown } from "../store/wall.js";
import type { TakenJob } from "../work/taken.js";
import { assertData, FlowPlan } from "./plan.js";
import { park, type ParkReply } from "./scripts/index.js";

/** Made ids are unique, whatever the queue. */
const ids = new IdSource();

/** Adds children to a running job, which then waits. Repeats the call until its outcome is known. `span`: the trace of the handler. */
export const parkJob = async (
  job: TakenJob,
  children: readonly unknown[],
  span: string | undefined,
): Promise<ParkReply> => {
  const { commands, id, member } = job;
  const { settings } = commands;
  const planSettings = { defaults: addDefaults(settings), maxPayloadBytes: settings.maxPayloadBytes };
  const plan = new FlowPlan({ children: children as never }, ids, planSettings, id);
  await assertData(plan, settings.schemas);
  const jobs = plan.newJobs(span);
  const stamp = Math.round(job.begunAt + performance.now() - job.startedAt).toString(36);
  const args = {
    member,
    children: children.length,
    plan: jobs.map(({ id: own = "", words }) => `${own}${words}`).join("\n"),
    blobs: jobs.map(({ head, payload }) => blobOf(stamp, head, payload)),
  };
  for (let attempt = 1; ; attempt++)
    try {
      const reply = await commands.run(park, args);
      commands.outage.worked("parking");
      return reply;
    } catch (reason) {
      const error = asKitError(reason, "Adding the children of a job");
      if (!error.retryable && !isUnknown(error)) throw error;
      // As at the end of any job, a lease that expires meanwhile decides nothing.
      job.isRepeat = true;
      await commands.failed("parking", "Adding the children of a job", error, attempt);
    }
};
