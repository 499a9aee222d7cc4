// The part of a worker that acquires leases of any kind. It works under each lease, releases it, and logs the outcome.
import { pause } from "@kit/core/toolkit";
import { Redis } from "ioredis";
import { clock, nodeRedisMethods } from "@tooling/lab";
import {
  abortReason,
  attempt,
  block,
  closing,
  connected,
  detail,
  left,
  log,
  outcomeOf,
  repeating,
  run,
  seekMaster,
  settings,
  timed,
  wasOrdered,
} from "./contender.mjs";
import { confirm, follow, forget } from "./lease-ends.mjs";

const { leaseMs, deadlineMs, isClockTrue } = settings;

/** Calls `note(keys, args, answer, sentAt)` for each reply to a script. */
export const overhear = (client, note) => {
  const send = client.call.bind(client);
  client.call = (command, ...args) => {
    const sentAt = clock();
    const reply = send(command, ...args);
    const [, count, ...operands] = args;
    const keys = operands.slice(0, Number(count));
    if (command === "evalsha" || command === "eval")
      reply.then(
        (answer) => note(keys, operands.slice(Number(count)).map(String), answer, sentAt),
        () => undefined,
      );
    return reply;
  };
};

// The server of an address may have become a replica, which shows what its master was a moment ago. Only the refusal of a
// write makes the client look for its master.
const isMaster = settings.looksByWrite ? "redis.call('UNLINK', KEYS[1] .. ':none')" : "";

/**
 * Reads of the server's data over a connection without faults: `look(script, key, ...args)` resolves with the reply and the instant of
 * its request, and with undefined after so many tries in vain or once `isOver`.
 */
export const lookAt = async (tries, isOver = () => false) => {
  const client = await connected(settings.lookUrl, "-look");
  let soughtAt = -Infinity;
  return async (script, key, ...args) => {
    for (let tried = 1; tried <= tries && !isOver(); tried++)
      try {
        const from = clock();
        return { from, reply: await client.call("EVAL", `${isMaster} ${script}`, 1, key, ...args) };
      } catch (error) {
        // Many reads fail at once, for one of which the client looks for its master.
        if (clock() - soughtAt > 100) {
          soughtAt = clock();
          seekMaster(client, error);
        }
        await pause(20 * tried);
      }
    return undefined;
  };
};

// A grant is pushed to its waiter with the lease's end by the server's clock. The reply to the acquire may come later, and
// gives an earlier end: where a connection was cut, the request is sent again, but counts from its first sending.
const pushed = (message) => {
  const [token, what, endsAt] = message.split("\t");
  if (what === "granted" && isClockTrue) confirm(token, Number(endsAt));
};
if (settings.client === "node-redis") {
  const methods = await nodeRedisMethods();
  const { subscribe } = methods;
  methods.subscribe = function (channels, listener, ...more) {
    const both = (message, channel) => {
      pushed(String(message));
      return listener(message, channel);
    };
    return subscribe.call(this, channels, both, ...more);
  };
} else {
  const { duplicate } = Redis.prototype;
  Redis.prototype.duplicate = function (...args) {
    const connection = duplicate.apply(this, args);
    connection.on("message", (_channel, message) => pushed(message));
    return connection;
  };
}

/** Records when the signal aborts and whether the lease had ended before, both on this process's own clock. */
const watch = ({ name, grantOf, tokenOf = ({ token }) => token }, lease) => {
  const token = tokenOf(lease);
  const facts = { name, ...grantOf(lease), grantedAt: clock() };
  const leaseEnd = follow(token, () => look());
  /** The confirmed end. An earlier one belongs to an earlier grant of the same token, which came too late to be used. */
  const confirmedEnd = () => {
    const endsAt = leaseEnd();
    return endsAt > facts.grantedAt ? endsAt : undefined;
  };
  let isOver = false;
  let timer;
  const look = () => {
    const endsAt = confirmedEnd();
    if (endsAt === undefined) return;
    const leftMs = endsAt - clock();
    clearTimeout(timer);
    // A later reply has confirmed a later end.
    if (facts.missedAt < endsAt) facts.missedAt = undefined;
    if (leftMs > 0) timer = setTimeout(look, Math.ceil(leftMs));
    // After a stall many timers are due at once, in no certain order. The package's timers go first.
    else timer = setTimeout(missed, 2);
  };
  const missed = () => {
    if (isOver || facts.abortedAt !== undefined || confirmedEnd() > clock()) return;
    facts.missedAt ??= clock();
  };
  const aborted = () => {
    clearTimeout(timer);
    facts.abortedAt = clock();
    facts.reason = lease.signal.reason?.reason ?? "untyped";
  };
  lease.signal.addEventListener("abort", aborted, { once: true });
  look();
  return () => {
    isOver = true;
    clearTimeout(timer);
    lease.signal.removeEventListener("abort", aborted);
    log("hold", { ...facts, endsAt: confirmedEnd(), endedAt: clock() });
    forget(token);
  };
};

// ── holding ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Mostly short, so that many get their turn; some longer than the lease, so that it is renewed or expires. */
const holdMs = (random) => {
  const roll = random();
  if (roll < 0.45) return 0;
  if (roll < 0.93) return random() * 12;
  return roll < 0.98 ? (random() * leaseMs) / 2 : random() * 2 * leaseMs;
};

/** Works for a while under a lease, or blocks the event loop; `about` identifies the lease in the log. */
export const endure = async (random, name, lease, about) => {
  // The nemesis orders the next holder to block.
  if (wasOrdered("block")) {
    block(random, { name, ...about });
  } else {
    await pause(holdMs(random));
  }
  if (random() < 0.05) await attempt("extend", name, deadlineMs, () => lease.extend());
};

/** Tries to renew an ended lease: one that was released, or lost by a reply of the server. */
const tryStale = async (source, random, lease, text) => {
  const { name } = source;
  const isOver = lease.signal.aborted ? ["expired", "taken"].includes(lease.signal.reason?.reason) : true;
  if (!isOver || random() > 0.3) return;
  const about = { lease: source.nameOf(lease) };
  const resume = () => source.resume(text);
  const revived = text && (await attempt("stale resume", name, deadlineMs, resume, undefined, about));
  if (revived) await attempt("release", name, deadlineMs, () => revived.release());
  await attempt("stale extend", name, deadlineMs, () => lease.extend(), undefined, about);
};

const releaseAndCheck = async (source, random, lease) => {
  const { name } = source;
  // A set of leases has no text.
  const text = lease.serialise?.();
  // A second object for the same lease, as in another process. It must have no effect once the first has released.
  const isTwin = text && random() < 0.1;
  const twin = isTwin ? await attempt("resume", name, deadlineMs, () => source.resume(text)) : undefined;
  const outcome = await attempt(
    "release",
    name,
    deadlineMs,
    () => lease.release(),
    (result) => ({ result }),
    { lease: source.nameOf(lease) },
  );
  if (outcome === "released" || lease.signal.aborted) await tryStale(source, random, lease, text);
  if (!twin) return;
  const about = { lease: source.nameOf(lease) };
  if (outcome === "released") await attempt("stale extend", name, deadlineMs, () => twin.extend(), undefined, about);
  await attempt("stale release", name, deadlineMs, () => twin.release());
};

// ── contending ──────────────────────────────────────────────────────────────────────────────────────────────────────

const patience = (random) => {
  const roll = random();
  const waitMs = Math.ceil(roll < 0.3 ? 50 + random() * 150 : roll < 0.7 ? 300 + random() * 1_200 : 4_000);
  return { waitMs, renew: random() < 0.85 };
};

const hold = async (source, random, lease) => {
  const unwatch = watch(source, lease);
  await source.work(random, lease);
  unwatch();
  await releaseAndCheck(source, random, lease);
};

/** One lease, taken by one of the available calls. */
const round = async (source, random) => {
  const { name, grantOf, nameOf } = source;
  const roll = random();
  const { waitMs, renew } = patience(random);
  const grant = (lease) => (lease ? grantOf(lease) : {});
  if (roll < 0.15) {
    const lease = await attempt("tryAcquire", name, deadlineMs, () => source.tryAcquire({ renew }), grant);
    if (lease) await hold(source, random, lease);
  } else if (roll < 0.5) {
    const settled = timed("acquire", name, waitMs);
    let releasing;
    let held;
    try {
      await source.using(
        async (lease) => {
          settled("ok", grantOf(lease));
          held = { lease: nameOf(lease) };
          const unwatch = watch(source, lease);
          await source.work(random, lease);
          unwatch();
          releasing = timed("release", name, deadlineMs);
        },
        { waitMs, renew },
      );
      // Resolved: released, or the outcome is unknown and was reported by an event.
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
    const lease = await attempt("acquire", name, dueMs, () => source.acquire(options), grant);
    clearTimeout(timer);
    if (lease) await hold(source, random, lease);
  }
};

/**
 * Acquires leases in several loops until the worker leaves, and closes the locks or semaphores while their leases are in use.
 * Each of `sources` has a loop; called with a random number generator, it chooses the next lease. It returns:
 *
 * - `name` and the calls that acquire a lease of that name
 * - `work`: the work under the lease
 * - `grantOf`: the fields of a grant in the log
 * - `nameOf`: the name of the lease in the log
 * - `tokenOf`: the name of the lease where its end is confirmed, if that is not its token
 * - `ended`: called when the lease is over, or was not granted
 */
export const contendAll = (sources, closables) => {
  const contend = (sourceOf) =>
    repeating(async (random) => {
      const source = sourceOf(random);
      await round(source, random);
      source.ended?.(random);
    });
  const closeAmid = async () => {
    await left;
    await closing(3_000, () => Promise.all(closables.map((closable) => closable.close({ timeoutMs: 2_500 }))));
  };
  return run([...sources.map(contend), closeAmid], () => undefined);
};

/** As many loops of one source as the lab has set. */
export const loopsOf = (sourceOf) => Array.from({ length: settings.loops }, () => sourceOf);
