import { isMade } from "../job/ids.js";
import { addresseeOf } from "../job/outcomes.js";
import type { EndedJob } from "../store/commands.js";
import { maxEnded } from "../store/scripts/index.js";
import type { TakenJob } from "./taken.js";

/** How a job ends: done, dead, or tried again after this many ms. */
export interface Ending {
  readonly job: TakenJob;
  readonly verdict: "done" | "dead" | number;
  /** Its record for `failures`. Empty for a job that is done. */
  readonly record: string;
  readonly error: unknown;
  /** It is tried again without counting an attempt. */
  readonly isSnoozed?: boolean;
  /** It is done without having run: no worker took it in time. */
  readonly isExpired?: boolean;
  /** No job of the queue, or of its group, starts until this job is tried again. */
  readonly holds?: "queue" | "group" | undefined;
  /** The value that its handler returned. */
  readonly result?: unknown;
  /** The outcome for its caller or its parents, as `outcomes.lua` returns it. Undefined if nothing waits for it. */
  readonly outcome?: string | Buffer | undefined;
}

/**
 * The maximum number of jobs in a call that the server ends one by one: failed or called jobs, and jobs with a caller's id or a successor, and
 * jobs of flows.
 */
const maxOthers = 100;
const maxOutcomeBytes = 1_024 * 1_024;

/** Takes the ended jobs that fit in one step from the front of `waiting`. */
export const takeFrom = (waiting: Ending[]): Ending[] => {
  let others = 0;
  let bytes = 0;
  const last = waiting.findIndex((ending) => {
    if (isSimple(ending)) return false;
    bytes += ending.outcome?.length ?? 0;
    return ++others > maxOthers || (bytes > maxOutcomeBytes && others > 1);
  });
  return waiting.splice(0, Math.min(last < 0 ? maxEnded : last, maxEnded));
};

/** The operands of `step.lua` that end these jobs. `prefix` is the prefix of keys and channels. */
export const operandsOf = (
  endings: readonly Ending[],
  prefix: string,
): { readonly done: string; readonly others: readonly EndedJob[]; readonly callers: readonly string[] } => {
  const done: string[] = [];
  const others: EndedJob[] = [];
  const callers: string[] = [];
  for (const ending of endings) {
    const { job, record } = ending;
    if (isSimple(ending)) done.push(job.member);
    else {
      const answer = answerTo(ending, prefix, callers);
      others.push({ member: job.member, verdict: verdictOf(ending), record, answer });
    }
  }
  return { done: done.join("\n"), others, callers };
};

/** The `answer` of `step.lua` for the parents of a job; or for its caller: the number of its key among `callers`, channel, name, outcome. */
const answerTo = ({ job, verdict, outcome }: Ending, prefix: string, callers: string[]): string | Buffer => {
  const { replyTo, isChild } = job.header;
  if (outcome === undefined) return "";
  if (isChild) return verdict === "done" ? withHead("0 ", outcome) : "";
  if (replyTo === undefined) return "";
  const { channel, caller } = addresseeOf(replyTo, prefix);
  if (!callers.includes(caller)) callers.push(caller);
  return withHead(`${String(callers.indexOf(caller) + 1)} ${channel} ${caller} `, outcome);
};

const withHead = (head: string, outcome: string | Buffer): string | Buffer =>
  typeof outcome === "string" ? head + outcome : Buffer.concat([Buffer.from(head), outcome]);

/** Whether other jobs may wait for its end. */
const leads = ({ header }: TakenJob): boolean => header.keepsLast || header.isInFlow;

/** Whether the server can end the job together with others. */
const isSimple = ({ job, verdict, isExpired, outcome }: Ending): boolean =>
  verdict === "done" && !isExpired && outcome === undefined && !leads(job) && isMade(job.id);

const wayOf = { queue: "hold", group: "halt", snooze: "snooze", retry: "retry" };

/** The `verdict` of `step.lua`. */
const verdictOf = ({ job, verdict, isSnoozed, isExpired, holds }: Ending): string => {
  const unbegun = job.isLimited && (job.hasHandler === undefined || job.refusal !== undefined) ? " unbegun" : "";
  if (typeof verdict === "number")
    return `${wayOf[holds ?? (isSnoozed ? "snooze" : "retry")]}=${String(verdict)}${unbegun}`;
  return `${isExpired ? "expired" : verdict}${leads(job) ? " leads" : ""}${unbegun}`;
};
