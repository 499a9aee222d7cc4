// A contender: takes the locks again and again and works on the register that each of them guards.
//
// It is rude on purpose: it reads and writes the register also after its lease was lost. Refusing that is the fencing
// token's work.
import { readFileSync } from "node:fs";
import { pause } from "@kit/core";
import { clock } from "../../lab/clock.mjs";
import {
  abortReason,
  attempt,
  connected,
  detail,
  farewell,
  isLeaving,
  isTold,
  left,
  log,
  noteBackground,
  outcomeOf,
  settings,
  timed,
} from "../../lab/contender.mjs";
import { seeded } from "../../lab/random.mjs";

const { id, prefix, names, leaseMs, deadlineMs } = settings;
const { createLock } = await import(settings.lockModule);
const registerScript = readFileSync(new URL("register.lua", import.meta.url), "utf8");

// ── what the server confirmed of each lease, read off the wire and not taken from the lock's own word ─────────────────

const leaseEnds = new Map();
const endListeners = new Map();

const confirm = (token, endsAt) => {
  leaseEnds.set(token, Math.max(leaseEnds.get(token) ?? 0, endsAt));
  for (const listener of endListeners.get(token) ?? []) listener();
};

const overhear = (client) => {
  const send = client.call.bind(client);
  client.call = (command, ...args) => {
    const sentAt = clock();
    const reply = send(command, ...args);
    if (command === "evalsha" || command === "eval")
      reply.then(
        (answer) => note(args, answer, sentAt),
        () => undefined,
      );
    return reply;
  };
};

/** Renewals, and acquires that do not queue. A lease that was granted to a waiter is told by the register's first answer. */
const note = ([, count, ...operands], answer, sentAt) => {
  const keys = operands.slice(0, Number(count));
  const args = operands.slice(Number(count)).map(String);
  if (keys.every((key) => key.endsWith(":lease"))) {
    for (let i = 0; i < keys.length; i++)
      if (Number(answer?.[i + 1]) === 1) confirm(args[2 * i].split("|")[0], sentAt + Number(args[2 * i + 1]));
    return;
  }
  const [owner, terms] = args;
  // The last of the terms is where a waiter is told.
  const grantedMs = /^(\d+) \d+ \d? \d+ \d+ \d+ $/.exec(terms ?? "")?.[1];
  if (grantedMs === undefined) return;
  if (typeof answer === "string") confirm(owner.split("|")[0], sentAt + Number(grantedMs));
  else if (Number(answer?.[0]) === 1) confirm(owner.split("|")[0], sentAt + Number(answer[2]));
};

/** Notes when the signal aborts, and whether the lease's end came before it: both on this process's own clock. */
const watch = (name, lease) => {
  const facts = { name, fence: lease.fencingToken, grantedAt: clock() };
  let isOver = false;
  let timer;
  const look = () => {
    const endsAt = leaseEnds.get(lease.token);
    if (endsAt === undefined) return;
    const leftMs = endsAt - clock();
    clearTimeout(timer);
    // The server said meanwhile that it had lasted longer than we knew.
    if (facts.missedAt < endsAt) facts.missedAt = undefined;
    if (leftMs > 0) timer = setTimeout(look, Math.ceil(leftMs));
    // After a stall many timers are due at once, in no certain order: they go first.
    else timer = setTimeout(missed, 2);
  };
  const missed = () => {
    if (isOver || facts.abortedAt !== undefined || leaseEnds.get(lease.token) > clock()) return;
    facts.missedAt ??= clock();
  };
  const aborted = () => {
    clearTimeout(timer);
    facts.abortedAt = clock();
    facts.reason = lease.signal.reason?.reason ?? "untyped";
  };
  lease.signal.addEventListener("abort", aborted, { once: true });
  const listeners = endListeners.get(lease.token) ?? [];
  endListeners.set(lease.token, [...listeners, look]);
  look();
  return () => {
    isOver = true;
    clearTimeout(timer);
    lease.signal.removeEventListener("abort", aborted);
    log("hold", { ...facts, endsAt: leaseEnds.get(lease.token), endedAt: clock() });
    endListeners.delete(lease.token);
    leaseEnds.delete(lease.token);
  };
};

// ── the register ──────────────────────────────────────────────────────────────────────────────────────────────────────

let accesses = 0;

const access = async (register, action, name, lease, base) => {
  const op = `${id}.${++accesses}`;
  const keys = [
    `${prefix}:register:{${name}}:state`,
    `${prefix}:register:{${name}}:history`,
    `${prefix}:lock:{${name}}:lease`,
  ];
  const args = [action, lease.fencingToken, lease.token, id, op, base, settings.fenced ? 1 : 0];
  for (let tries = 1; ; tries++)
    try {
      const [verdict, value, owned, micros, msLeft] = await register.call(
        "EVAL",
        registerScript,
        keys.length,
        ...keys,
        ...args,
      );
      // Asked in the same breath as the answer arrives: whatever it says happened while the lease was surely held.
      const isHeld = lease.isHeld;
      log("access", { action, name, fence: lease.fencingToken, op, verdict, owned: Number(owned), micros, isHeld });
      if (Number(owned) === 1 && Number(msLeft) > 0) confirm(lease.token, Number(micros) / 1_000 + Number(msLeft));
      return verdict === "accepted" ? value : undefined;
    } catch (error) {
      if (tries === 5) {
        log("access", { action, name, fence: lease.fencingToken, op, verdict: "unknown", error: String(error) });
        return undefined;
      }
      await pause(20 * tries);
    }
};

/** Mostly short, so that many get their turn; some beyond the lease, which is then renewed or runs out. */
const holdMs = (random) => {
  const roll = random();
  if (roll < 0.45) return 0;
  if (roll < 0.93) return random() * 12;
  return roll < 0.98 ? (random() * leaseMs) / 2 : random() * 2 * leaseMs;
};

const work = async (register, random, name, lease) => {
  const value = await access(register, "read", name, lease, "0");
  if (value === undefined) return;
  // The nemesis wants the next holder to do so.
  if (isTold("block") || random() < settings.blockChance) {
    const blockedAt = clock();
    const until = blockedAt + leaseMs * (1.2 + 0.6 * random());
    while (clock() < until);
    log("blocked", { name, fence: lease.fencingToken, from: blockedAt, to: clock() });
  } else {
    await pause(holdMs(random));
  }
  if (random() < 0.05) await attempt("extend", name, deadlineMs, () => lease.extend());
  await access(register, "write", name, lease, value);
};

// ── contending ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What is over must stay over: a lease that was released, or lost to the server's own word, can be revived by nobody. */
const tryStale = async (lock, random, name, lease, text) => {
  const isOver = lease.signal.aborted ? ["expired", "taken"].includes(lease.signal.reason?.reason) : true;
  if (!isOver || random() > 0.3) return;
  const revived = await attempt("stale resume", name, deadlineMs, () => lock.resume(text));
  if (revived) await attempt("release", name, deadlineMs, () => revived.release());
  await attempt("stale extend", name, deadlineMs, () => lease.extend());
};

const releaseAndCheck = async (lock, random, name, lease) => {
  const text = lease.serialise();
  // A second object for the same lease, as another process would have it: it must harm nobody once the first let go.
  const twin = random() < 0.1 ? await attempt("resume", name, deadlineMs, () => lock.resume(text)) : undefined;
  const outcome = await attempt(
    "release",
    name,
    deadlineMs,
    () => lease.release(),
    (result) => ({ result }),
    { lease: lease.fencingToken },
  );
  if (outcome === "released" || lease.signal.aborted) await tryStale(lock, random, name, lease, text);
  if (!twin) return;
  if (outcome === "released") await attempt("stale extend", name, deadlineMs, () => twin.extend());
  await attempt("stale release", name, deadlineMs, () => twin.release());
};

const patience = (random) => {
  const roll = random();
  const waitMs = Math.ceil(roll < 0.3 ? 50 + random() * 150 : roll < 0.7 ? 300 + random() * 1_200 : 4_000);
  return { waitMs, renew: random() < 0.85 };
};

const round = async (lock, register, random, name) => {
  const roll = random();
  const { waitMs, renew } = patience(random);
  if (roll < 0.15) {
    const lease = await attempt("tryAcquire", name, deadlineMs, () => lock.tryAcquire(name, { renew }), grantOf);
    if (lease) await hold(lock, register, random, name, lease);
  } else if (roll < 0.5) {
    const settled = timed("acquire", name, waitMs);
    let releasing;
    let held;
    try {
      await lock.using(
        name,
        async (lease) => {
          settled("ok", grantOf(lease));
          held = { lease: lease.fencingToken };
          const unwatch = watch(name, lease);
          await work(register, random, name, lease);
          unwatch();
          releasing = timed("release", name, deadlineMs);
        },
        { waitMs, renew },
      );
      // Resolved: released, or nobody knows, and an event told of it.
      releasing?.("ok", { ...held, result: "used" });
    } catch (error) {
      settled(outcomeOf(error), detail(error));
      releasing?.(outcomeOf(error), { ...held, ...detail(error) });
    }
  } else {
    const isAborting = roll < 0.6;
    const controller = new AbortController();
    const abortMs = random() * 300;
    const timer = isAborting && setTimeout(() => controller.abort(abortReason), abortMs);
    const dueMs = isAborting ? Math.min(waitMs, abortMs) : waitMs;
    const options = { waitMs, renew, signal: isAborting ? controller.signal : undefined };
    const lease = await attempt("acquire", name, dueMs, () => lock.acquire(name, options), grantOf);
    clearTimeout(timer);
    if (lease) await hold(lock, register, random, name, lease);
  }
};

const grantOf = (lease) => (lease ? { fence: lease.fencingToken } : {});

const hold = async (lock, register, random, name, lease) => {
  const unwatch = watch(name, lease);
  await work(register, random, name, lease);
  unwatch();
  await releaseAndCheck(lock, random, name, lease);
};

/** A few names are wanted by all, the others by few: both queues and quick turns. */
const someName = (random) => {
  const hot = Math.min(settings.hotNames, names.length);
  const isHot = random() < settings.hotChance;
  return isHot ? names[Math.floor(random() * hot)] : names[Math.floor(random() * names.length)];
};

const contend = async (lock, register, loop) => {
  const random = seeded(settings.seed * 31 + loop);
  while (!isLeaving()) {
    await round(lock, register, random, someName(random));
    await pause(random() * settings.restMs);
  }
};

const client = await connected(settings.url, id);
const register = await connected(settings.registerUrl, `${id}-register`);
overhear(client);
const lock = createLock(client, { prefix, leaseMs, deadlineMs, holder: id });
lock.on("error", noteBackground);
log("started", { pid: process.pid });
const loops = Array.from({ length: settings.loops }, (_, loop) => contend(lock, register, loop));
await left;
const closing = timed("close", "", 3_000);
const closed = lock.close({ timeoutMs: 2_500 });
await Promise.all(loops);
await closed;
closing("ok");
await client.close();
await register.close();
farewell();
