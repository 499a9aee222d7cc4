// A contender: acquires permits again and again, and reads the server's data about each.
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import { attempt, log, noteBackground, pick, settings, subject, subjectClient, upTo } from "../../lab/contender.mjs";
import { confirm, confirmRenewals } from "../../lab/lease-ends.mjs";
import { contendAll, endure, lookAt, loopsOf, overhear } from "../../lab/leases.mjs";

const { id, prefix, specs, leaseMs, deadlineMs, isClockTrue } = settings;
const { createSemaphore } = subject;

const tokenOf = (permitRecord) => permitRecord.split("|")[0];

/** Confirms the lease ends in replies to renewals, acquires and heartbeats. `look` confirms grants by push. */
const note = (keys, args, answer, sentAt) => {
  if (keys.every((key) => key.endsWith(":permits"))) {
    confirmRenewals(args, answer, sentAt, tokenOf);
    return;
  }
  const [permitRecord = "", terms = "", , , ...permitRecords] = args;
  const grantedMs = /^(\d+) \d+ \d+ \d* /.exec(terms)?.[1];
  if (grantedMs !== undefined) {
    if (typeof answer === "number") confirm(tokenOf(permitRecord), sentAt + Number(grantedMs));
    else if (Number(answer?.[0]) === 1) confirm(tokenOf(permitRecord), sentAt + Number(answer[2]));
  }
  for (const [i, waiter] of permitRecords.entries()) {
    const msLeft = -2 - Number(answer?.[i + 5]);
    if (msLeft > 0) confirm(tokenOf(waiter), sentAt + msLeft);
  }
};

// ── use of a permit ─────────────────────────────────────────────────────────────────────────────────────────────────

const lookScript = `local time = redis.call('TIME')
  local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
  for i = 1, #found, 2 do
    if string.sub(found[i], 1, #ARGV[1]) == ARGV[1] then
      local msLeft = found[i + 1] - (time[1] * 1000 + math.floor(time[2] / 1000))
      return { msLeft > 0 and 1 or 0, found[i + 1] }
    end
  end
  return { 0, '0' }`;

const look = async (name, permit) => {
  const { token } = permit;
  const key = `${prefix}:semaphore:{${name}}:permits`;
  const found = await looking(lookScript, key, `${token}|`);
  if (!found) return;
  const { from, reply } = found;
  const [isKnown, endsAt] = reply;
  // Read in the turn in which the reply arrives: if it is true, the permit was held when the server replied.
  const { isHeld } = permit;
  log("access", { name, token, from, at: clock(), isKnown: isKnown === 1, isHeld });
  // Server and worker share this machine's clock, unless a fault shifts it.
  if (isKnown === 1 && isClockTrue) confirm(token, Number(endsAt));
};

/** Sets a random limit, sometimes after a short pause at a limit of 0. */
const resize = async (random, { name, resizedTo }, semaphore) => {
  const permits = upTo(random, resizedTo);
  if (random() < 0.2) {
    await attempt("setPermits", name, deadlineMs, () => semaphore.setPermits(0));
    await pause(random() * 50);
  }
  await attempt("setPermits", name, deadlineMs, () => semaphore.setPermits(permits));
};

// ── contending ──────────────────────────────────────────────────────────────────────────────────────────────────────

const client = await subjectClient(settings.url);
const looking = await lookAt(5);
overhear(client, note);
const semaphores = new Map(
  specs.map(({ name, permits, permitsPerTenant }) => {
    const semaphore = createSemaphore(client, name, { permits, permitsPerTenant, prefix, leaseMs, deadlineMs });
    semaphore.on("error", noteBackground);
    return [name, semaphore];
  }),
);

const sourceOf = (random) => {
  const spec = pick(random, specs);
  const { name, tenants, weights, hasPriorities } = spec;
  const semaphore = semaphores.get(name);
  const weight = random() < 0.5 ? 1 : upTo(random, weights);
  const priority = hasPriorities ? Math.floor(random() * 3) - 1 : 0;
  const tenant = tenants > 0 ? `tenant ${upTo(random, tenants)}` : undefined;
  // The wall clock is part of the holder for the control `client-clock`, which reads it.
  const requestOf = (urgency) => ({ weight, tenant, holder: `${id}.${urgency}.${Date.now()}` });
  return {
    name,
    acquire: (options) => semaphore.acquire({ ...options, ...requestOf(priority), priority }),
    tryAcquire: (options) => semaphore.tryAcquire({ ...options, ...requestOf(0) }),
    using: (routine, options) => semaphore.using(routine, { ...options, ...requestOf(priority), priority }),
    resume: (text) => semaphore.resume(text),
    work: async (chance, permit) => {
      await look(name, permit);
      await endure(chance, name, permit, { token: permit.token });
      if (spec.resizedTo !== undefined && chance() < 0.03) await resize(chance, spec, semaphore);
    },
    grantOf: (permit) => ({ token: permit.token, weight, tenant }),
    nameOf: (permit) => permit.token,
  };
};
await contendAll(loopsOf(sourceOf), [...semaphores.values()]);
