// Changes of jobs and queues, as another process would make them. What is asked for is logged before it is sent, since a kill may come between.
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import { attempt, isLeaving, log, pick, repeating, settings, subject, upTo } from "../../lab/contender.mjs";

/** Twice the deadline of the client: a cancellation first looks the job up. */
const dueMs = 10_000;

/** Logs a change before and after its call. Resolves with what it says, or with `true` if it says nothing; undefined if it failed. */
export const ask = async (what, name, about, call) => {
  log("asked", { what, name, ...about, at: clock() });
  return await attempt(
    what,
    name,
    dueMs,
    async () => (await call()) ?? true,
    (said) => ({ said }),
    about,
  );
};

const { leaseMs } = settings;
const { cancelJob, editJob, listWorkers, pauseQueue, promoteJob, removeJob, rescheduleJob, resumeQueue, setLimits } =
  subject;

/** By its name: what it is like to be a job that is changed so, how soon it is, and the call. */
const changes = {
  cancel: {
    share: 0.05,
    job: (random) => ({ ms: random() < 0.5 ? 20 : leaseMs * (0.5 + 1.5 * random()) }),
    afterMs: 60,
    call: cancelJob,
  },
  remove: { share: 0.03, job: (random) => ({ delayMs: Math.ceil(random() * 100) }), afterMs: 60, call: removeJob },
  reschedule: {
    share: 0.03,
    job: (random) => ({ delayMs: 100 + Math.ceil(random() * 100) }),
    afterMs: 60,
    facts: (random) => ({ delayMs: 200 + Math.ceil(random() * 200) }),
    call: rescheduleJob,
  },
  edit: {
    share: 0.03,
    job: (random) => ({ delayMs: random() < 0.3 ? 0 : upTo(random, 100) }),
    afterMs: 60,
    call: (client, address, id, _facts, data) => editJob(client, address, id, { data: { ...data, version: 2 } }),
  },
  // Nobody waits for its time: at the end it has run, or is left over.
  promote: { share: 0.02, job: () => ({ delayMs: 600_000, isOwn: true }), afterMs: 60, call: promoteJob },
};

/** Before such a job is added, since a worker that is killed then cannot tell. */
export const willAsk = (what, name, key) => log("asked", { what, name, key, at: clock() });

/** The change that a job is made for, and what it is like; most jobs are made for none. */
export const changeOf = (random) => {
  let roll = random();
  for (const [what, change] of Object.entries(changes))
    if ((roll -= change.share) < 0) return { what, ...change.job(random) };
  return {};
};

/** Makes the change of a job that was added, until its outcome is known. */
export const change = async (client, queue, id, { what, data }, random) => {
  const { afterMs, call, facts = () => ({}) } = changes[what];
  const own = facts(random);
  await pause(random() * afterMs);
  for (let tries = 1; tries <= 3; tries++) {
    const said = await ask(what, queue, { key: data.key, ...own }, () => call(client, { queue }, id, own, data));
    if (said !== undefined) return;
    await pause(20 * tries);
  }
};

/** A loop that pauses a queue, or its jobs of one name, for longer than a lease, and resumes it, again and again. */
export const pausing = (client, queue, jobName) => {
  const isDone = async (what, call) =>
    (await ask(what, queue, { jobName }, () => call(client, { queue }, { name: jobName }))) !== undefined;
  return repeating(async (random) => {
    if (await isDone("pause", pauseQueue)) await pause(leaseMs * (1.2 + random()));
    while (!(await isDone("resume", resumeQueue)) && !isLeaving()) await pause(20);
  }, leaseMs * 2);
};

const concurrencies = [2, 3, 4, null];
const ofNames = [1, 2, null];
const rates = [{ count: 60, perMs: 1_000, burst: 6 }, { count: 50, perMs: 500, burst: 3 }, null];

/** A loop that changes one of the limits of a queue, again and again. */
export const limiting = (client, queue) =>
  repeating(async (random) => {
    const limits = random() < 0.5 ? { concurrency: pick(random, concurrencies) } : { rate: pick(random, rates) };
    await ask("limit", queue, limits, () => setLimits(client, { queue }, limits));
  }, leaseMs * 4);

/** A loop that changes the limit of the jobs of one name, again and again. */
export const limitingName = (client, queue, jobName) =>
  repeating(async (random) => {
    const limits = { concurrency: pick(random, ofNames) };
    await ask("limit", queue, { jobName, ...limits }, () =>
      setLimits(client, { queue }, { names: { [jobName]: limits } }),
    );
  }, leaseMs * 4);

/** A loop that reads the workers of a queue, again and again. */
export const listing = (client, queue) =>
  repeating(async () => {
    const { workers, now } = await listWorkers(client, { queue }).catch(() => ({ workers: [] }));
    log("listed", {
      name: queue,
      workers: workers.map(({ id, seenAt }) => ({ id, silentMs: Math.abs(now - Date.parse(seenAt)) })),
    });
  }, leaseMs);
