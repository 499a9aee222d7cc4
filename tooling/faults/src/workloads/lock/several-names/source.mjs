// Sets of locks that are taken at once, by names of their own. What the server has of them is read over a connection without
// faults.
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import { attempt, isLeaving, log, pick, settings, upTo } from "../../../lab/contender.mjs";
import { confirm, follow, forget } from "../../../lab/lease-ends.mjs";
import { endure, lookAt } from "../../../lab/leases.mjs";

const { id, prefix, setNames, leaseMs, deadlineMs, isClockTrue } = settings;

const lookScript = `local time = redis.call('TIME')
  return { redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), time[1] .. string.format('%06d', time[2]) }`;

const looking = await lookAt(3, isLeaving);

/** The lease of a name: its token, its holder, and the instant of its end by the server's clock. Undefined: no reply. */
const leaseOf = async (name) => {
  const found = await looking(lookScript, `${prefix}:lock:{${name}}:lease`);
  if (!found) return undefined;
  const [owner, msLeft, micros] = found.reply;
  const [token, holder] = owner.split("|");
  return { token, holder, endsAt: Number(micros) / 1_000 + Number(msLeft) };
};

/** Logs whether the set has each of its names. Resolves with those leases that it has. */
const look = async (set, holder, names) => {
  const found = await Promise.all(
    names.map(async (name) => {
      const from = clock();
      const lease = await leaseOf(name);
      if (!lease) return undefined;
      // Read in the turn in which the reply arrives: if it is true, all names were held when the server replied.
      const { isHeld } = set;
      const isOwn = lease.holder === holder;
      log("member", { name, set: holder, from, at: clock(), isOwn, isHeld });
      return isOwn ? lease : undefined;
    }),
  );
  return found.filter(Boolean);
};

/** From now on the end of the set is that of the lease that ends first. */
const followAll = (holder, leases) => {
  const confirmAll = () => {
    const end = Math.min(...ends.map((endOf) => endOf() ?? -Infinity));
    if (end > 0) confirm(holder, end);
  };
  const ends = leases.map(({ token }) => follow(token, confirmAll));
  if (isClockTrue) for (const { token, endsAt } of leases) confirm(token, endsAt);
};

/** How many names of its set a holder has. Undefined: not known. */
const namesOf = async (holder, names) => {
  const leases = await Promise.all(names.map(leaseOf));
  if (leases.includes(undefined)) return undefined;
  return leases.filter((lease) => lease.holder === holder).length;
};

/**
 * Logs what is left of a set that is over: once it must be released, and, if there is something, once more when a lease that
 * nobody renews has ended.
 */
const lookForRest = async (name, holder, names) => {
  const endedAt = clock();
  await pause(deadlineMs + 100);
  const left = await namesOf(holder, names);
  const seenAt = clock();
  if (left === undefined) return;
  if (left > 0) await pause(1.2 * leaseMs + 100);
  const lasting = left > 0 ? await namesOf(holder, names) : 0;
  if (lasting !== undefined) log("rest", { name, set: holder, endedAt, seenAt, left, lasting });
};

const shuffled = (random, names) => {
  const left = [...names];
  return names.map(() => left.splice(Math.floor(random() * left.length), 1)[0]);
};

/** One to all names, in any order. Now and then somebody else ends the lease of one of them. */
export const setSource = (lock) => {
  const holders = new WeakMap();
  let sets = 0;
  return (random) => {
    const names = shuffled(random, setNames).slice(0, upTo(random, setNames.length));
    const name = names.toSorted().join("+");
    const holder = `${id}.${++sets}`;
    const known = (set) => {
      if (set) holders.set(set, holder);
      return set;
    };
    let leases = [];
    const work = async (chance, set) => {
      leases = await look(set, holder, names);
      if (leases.length === names.length) followAll(holder, leases);
      if (names.length > 1 && chance() < 0.01) {
        const one = pick(chance, names);
        log("forced", { name: one, at: clock() });
        await attempt("force", one, 2 * deadlineMs, () => lock.forceRelease(one));
        const lost = new Promise((resolve) => set.signal.addEventListener("abort", resolve, { once: true }));
        await Promise.race([lost, pause(2 * leaseMs)]);
        return;
      }
      await endure(chance, name, set, { set: holder });
      await look(set, holder, names);
    };
    return {
      name,
      acquire: async (options) => known(await lock.acquireAll(names, { ...options, holder })),
      tryAcquire: async (options) => known(await lock.tryAcquireAll(names, { ...options, holder })),
      using: (routine, options) => lock.usingAll(names, (set) => routine(known(set)), { ...options, holder }),
      work,
      grantOf: ({ fencingTokens }) => ({ set: holder, fences: Object.fromEntries(fencingTokens) }),
      nameOf: () => holder,
      tokenOf: () => holder,
      ended: (chance) => {
        for (const { token } of leases) forget(token);
        if (leases.length === 0 || chance() < 0.3) void lookForRest(name, holder, names);
      },
    };
  };
};
