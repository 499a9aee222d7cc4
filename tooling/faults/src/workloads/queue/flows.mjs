// Flows of one queue: three layers of jobs, of which each but the lowest waits for two or three of the layer below.
import { detail, outcomeOf, pick, repeating, settings, subject, timed, upTo } from "../../lab/contender.mjs";

const { id, deadlineMs, maxAttempts, restMs } = settings;

let made = 0;

/** A job that waits for these, whatever becomes of them. */
const newJob = (random, children) => {
  const key = `${id}-f${++made}`;
  const fails = random() < 0.85 ? 0 : random() < 0.6 ? 1 : maxAttempts;
  const data = { key, fails, ms: random() * 40, snoozes: [], isDeaf: false };
  const edges = children.map(({ job }) => ({ job, onFailure: "ignore" }));
  const about = { key, fails, delayMs: 0, children: children.map((child) => child.about.key) };
  return { about, job: { name: "job", data, children: edges } };
};

/** Two or three different jobs of a layer. */
const some = (random, layer) => [...new Set([...layer.slice(0, 2), pick(random, layer)])];

export const addingFlows = (queue) =>
  repeating(async (random) => {
    const leaves = Array.from({ length: 1 + upTo(random, 4) }, () => newJob(random, []));
    const middles = Array.from({ length: 2 }, () => newJob(random, some(random, leaves)));
    const root = newJob(random, some(random, middles));
    const used = new Set([root, ...middles].flatMap(({ about }) => about.children));
    const settled = timed("addFlow", queue.name, deadlineMs);
    const jobs = [root, ...middles, ...leaves.filter(({ about }) => used.has(about.key))].map(({ about }) => about);
    try {
      await subject.addFlow(queue, root.job);
      settled("ok", { jobs });
    } catch (error) {
      settled(outcomeOf(error), { jobs, ...detail(error) });
    }
  }, restMs * 8);
