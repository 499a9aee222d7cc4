// A process that adds jobs to every queue, runs jobs, and logs every event of them.
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import {
  closing,
  detail,
  log,
  noteBackground,
  obey,
  outcomeOf,
  pick,
  repeating,
  run,
  settings,
  subject,
  subjectClient,
  timed,
  upTo,
  wasOrdered,
} from "../../lab/contender.mjs";
import { addingFlows } from "./flows.mjs";
import { change, changeOf, limiting, limitingName, listing, pausing, willAsk } from "./manage.mjs";
import { schedulesOf } from "./schedules.mjs";
import { addingUnique } from "./unique.mjs";

const { id, specs, leaseMs, deadlineMs, maxAttempts, otherName, heartbeat } = settings;
const { createQueue, SnoozeError } = subject;

// ── working ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const factsOf = ({ id: jobId, data, attempt, crashes, snoozes }) => ({
  ...{ key: data.key ?? jobId, attempt, crashes, snoozes },
});

const maxBlockedMs = 3 * leaseMs;
const isThreaded = heartbeat === "thread";

/** Blocks the main loop for longer than a lease, and at times for longer than the thread renews leases. */
const standStill = () => {
  const never = new Int32Array(new SharedArrayBuffer(4));
  const from = clock();
  const until = from + leaseMs * (1.5 + 2 * Math.random());
  let [at, stoppedMs] = [from, 0];
  while (at < until) {
    Atomics.wait(never, 0, 0, 10);
    const now = clock();
    stoppedMs = Math.max(stoppedMs, now - at - 10);
    at = now;
  }
  log("blocked", { maxBlockedMs, stoppedMs, from, to: at });
};

const handlerOf = (name) => async (job) => {
  const { name: jobName, data, takenAt, attempt, snoozes, signal } = job;
  const facts = { name, ...factsOf(job) };
  log("access", { ...facts, jobName, version: data.version, takenAt, at: clock() });
  if (isThreaded && wasOrdered("block")) standStill();
  const ended = (how, more = {}) => log("ran", { ...facts, at: clock(), how, ...more });
  const stopped = pause(data.ms, data.isDeaf ? undefined : signal).then(
    () => undefined,
    () => signal.reason,
  );
  const reason = await stopped;
  if (reason) {
    ended("failed");
    throw reason;
  }
  const [waitMs] = data.snoozes.slice(snoozes);
  if (waitMs !== undefined) {
    ended("snoozed", { waitMs });
    throw new SnoozeError(waitMs);
  }
  ended(attempt <= data.fails ? "failed" : "ok");
  if (attempt <= data.fails) throw new Error("fails on purpose");
  return data.key;
};

const work = (queue, { name, work: options }) => {
  const handler = handlerOf(name);
  const worker = queue.work({ job: handler, [otherName]: handler }, { ...options, leaseMs, heartbeat, maxBlockedMs });
  worker.on("completed", ({ job }) => log("done", { name, ...factsOf(job), at: clock() }));
  worker.on("dead", ({ job }) => log("dead", { name, ...factsOf(job), at: clock() }));
  worker.on("lost", ({ job }) => log("lost", { name, ...factsOf(job), at: clock() }));
  worker.on("cancelled", ({ job }) => log("cancelled", { name, ...factsOf(job), at: clock() }));
  worker.on("expired", ({ job }) => log("expired", { name, ...factsOf(job), at: clock() }));
  worker.on("error", noteBackground);
  return worker;
};

// ── adding ──────────────────────────────────────────────────────────────────────────────────────────────────────────

let made = 0;

/** `wanted`: what the job is made for, and how it differs from others. */
const newJob = (random, { what, isOwn = random() < 0.1, ...wanted } = {}) => {
  const key = `${id}-${++made}`;
  const roll = random();
  const fails = random() < 0.88 ? 0 : random() < 0.6 ? 1 : maxAttempts;
  const usualMs = roll < 0.75 ? random() * 10 : roll < 0.97 ? random() * 60 : leaseMs * (0.5 + random());
  const usualDelayMs = random() < 0.85 ? 0 : Math.ceil(random() * 300);
  const { ms = usualMs, delayMs = usualDelayMs } = wanted;
  const priority = random() < 0.85 ? 0 : Math.floor(random() * 7) - 3;
  const own = isOwn ? { id: `own-${key}` } : {};
  const isSnoozed = what !== "reschedule" && what !== "promote" && random() < 0.08;
  const expires = what === undefined && random() < 0.06 ? { expiresMs: upTo(random, 150) } : {};
  const group = random() < 0.2 ? { group: `g${upTo(random, 3)}` } : {};
  const snoozes = Array.from({ length: isSnoozed ? upTo(random, 2) : 0 }, () => upTo(random, 150));
  const options = {
    ...(delayMs > 0 && { delayMs }),
    ...(priority !== 0 && { priority }),
    ...own,
    ...expires,
    ...group,
  };
  return {
    what,
    jobName: random() < 0.6 ? "job" : otherName,
    about: { key, fails, delayMs, ...expires, ...group },
    data: { key, fails, ms, snoozes, isDeaf: random() < 0.5 },
    options,
  };
};

/** Repeats an add until its outcome is known. */
const add = async (queue, name, job, random) => {
  const { what, jobName, about, data, options } = job;
  if (what === "promote") willAsk(what, name, about.key);
  for (let op, tries = 1; tries <= 6; tries++) {
    const settled = timed("add", name, deadlineMs);
    try {
      const jobId = await queue.add(jobName, data, op === undefined ? options : { ...options, op });
      settled("ok", { jobs: [about] });
      return what && (await change(client, name, jobId, job, random));
    } catch (error) {
      const outcome = outcomeOf(error);
      settled(outcome, { jobs: [about], ...detail(error) });
      if (outcome !== "unknown" || random() < 0.1) return;
      ({ op } = error);
      await pause(20 * tries);
    }
  }
};

const call = async (queue, name, { jobName, data, options, ...job }) => {
  const waitMs = 3_000;
  const { id: _id, expiresMs: _expiresMs, ...callOptions } = { ...options, waitMs };
  const about = { ...job.about, expiresMs: undefined };
  const settled = timed("call", name, waitMs + deadlineMs);
  try {
    settled("ok", { jobs: [about], isOwn: (await queue.call(jobName, data, callOptions)) === about.key });
  } catch (error) {
    const { attempts, crashes } = error;
    settled(outcomeOf(error), { jobs: [about], attempts, crashes, ...detail(error) });
  }
};

const addMany = async (queue, name, jobs) => {
  const settled = timed("addAll", name, deadlineMs);
  const about = jobs.map((job) => job.about);
  try {
    await queue.addAll(jobs.map(({ jobName, data, options }) => ({ name: jobName, data, ...options })));
    settled("ok", { jobs: about });
  } catch (error) {
    settled(outcomeOf(error), { jobs: about, ...detail(error) });
  }
};

const produce = repeating(async (random) => {
  // A queue with limits gets less, so that they do not hold back more and more.
  const [name, queue] = pick(random, random() < 0.4 ? queues : unlimited);
  const count = random() < 0.8 ? 1 : 1 + upTo(random, 10);
  const roll = random();
  const jobs = Array.from({ length: count }, () => newJob(random, roll < 0.4 ? {} : changeOf(random)));
  if (roll < 0.25) await addMany(queue, name, jobs);
  else if (roll < 0.4) await Promise.all(jobs.map((job) => call(queue, name, job)));
  else await Promise.all(jobs.map((job) => add(queue, name, job, random)));
}, settings.restMs * 2);

// ── start and end ───────────────────────────────────────────────────────────────────────────────────────────────────

const client = await subjectClient(settings.url);
const queues = specs.map((spec) => {
  const queue = createQueue(client, spec.name, {
    deadlineMs,
    maxAttempts,
    ...(spec.isDurable && { durable: settings.durable }),
    backoff: { firstMs: 30, jitter: 0.5 },
  });
  queue.on("error", noteBackground);
  work(queue, spec);
  return [spec.name, queue];
});
const unlimited = queues.filter((_, index) => !specs[index].isLimited);
const managed = settings.isManaging ? specs : [];
const pauses = managed.filter(({ isPaused }) => isPaused).map(({ name }) => pausing(client, name));
const limits = managed
  .filter(({ isLimited }) => isLimited)
  .flatMap(({ name }) => [
    limiting(client, name),
    limitingName(client, name, otherName),
    pausing(client, name, otherName),
  ]);
const lists = managed.map(({ name }) => listing(client, name));
const schedules = settings.scheduled === undefined ? undefined : schedulesOf(client, settings.scheduled);
const adding = [
  addingUnique(queues.map(([, queue]) => queue)),
  addingFlows(queues[0][1]),
  ...Array.from({ length: settings.loops }, () => produce),
];
const timeoutMs = 500;
const close = async () => {
  await schedules?.close({ timeoutMs });
  await Promise.all(queues.map(([, queue]) => queue.close({ timeoutMs })));
};
// With a thread handlers obey.
await run([...(isThreaded ? [] : [obey]), ...pauses, ...limits, ...lists, ...(schedules?.loops ?? []), ...adding], () =>
  closing(2 * timeoutMs + 3 * deadlineMs + 500, close),
);
