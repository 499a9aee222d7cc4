// Adds of jobs with a key, of which several processes add the same few.
import { pause } from "@kit/core/toolkit";
import { detail, outcomeOf, pick, repeating, settings, timed, upTo } from "../../lab/contender.mjs";

const { id, deadlineMs, restMs } = settings;

/** Each key has one mode. */
const uniqueOf = (random) => {
  const mode = pick(random, ["keepFirst", "keepLast"]);
  return { key: `${mode}-${upTo(random, 3)}`, mode };
};

let made = 0;

/** A job that neither fails nor snoozes: a later one may replace its data between two attempts. */
const newJob = (random) => {
  const key = `${id}-u${++made}`;
  const delayMs = random() < 0.7 ? 0 : upTo(random, 60);
  const about = { key, fails: 0, delayMs };
  const data = { ...about, ms: random() * 40, snoozes: [], isDeaf: false };
  return { about, data, options: { unique: uniqueOf(random), ...(delayMs > 0 && { delayMs }) } };
};

/** Repeats an add until its outcome is known. */
const addOnce = async (queue, { about, data, options }, random) => {
  for (let op, tries = 1; tries <= 6; tries++) {
    const settled = timed("addOnce", queue.name, deadlineMs);
    const facts = { jobs: [about], unique: options.unique };
    try {
      const { id: jobId, isAdded, isReplaced } = await queue.addOnce("job", data, op ? { ...options, op } : options);
      return settled("ok", { ...facts, id: jobId, isAdded, isReplaced });
    } catch (error) {
      const outcome = outcomeOf(error);
      settled(outcome, { ...facts, ...detail(error) });
      if (outcome !== "unknown" || random() < 0.1) return;
      ({ op } = error);
      await pause(20 * tries);
    }
  }
};

/** A loop that adds to any of the queues. */
export const addingUnique = (queues) =>
  repeating((random) => addOnce(pick(random, queues), newJob(random), random), restMs * 4);
