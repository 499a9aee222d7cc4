// A contender: acquires locks again and again, and works on the register that each of them guards. One loop acquires
// read/write locks, and one takes several locks at once.
//
// On purpose it reads and writes the register even after its lease was lost. The fencing token must make the register
// refuse that.
import { readFileSync } from "node:fs";
import { pause } from "@kit/core/toolkit";
import { connected, log, noteBackground, pick, settings, subject, subjectClient } from "../../lab/contender.mjs";
import { confirm, confirmRenewals } from "../../lab/lease-ends.mjs";
import { contendAll, endure, loopsOf, overhear } from "../../lab/leases.mjs";
import { noteReadWrite, readWriteSource } from "./read-write/source.mjs";
import { setSource } from "./several-names/source.mjs";

const { id, prefix, names, leaseMs, deadlineMs, isClockTrue } = settings;
const { createLock, createReadWriteLock } = subject;
const registerScript = readFileSync(new URL("register.lua", import.meta.url), "utf8");

/**
 * Confirms the lease ends in replies to renewals and to acquires that do not queue. `confirmGrant` and the register's
 * first reply confirm a lease that was granted to a waiter.
 */
const note = (keys, args, answer, sentAt) => {
  if (noteReadWrite(keys, args, answer, sentAt)) return;
  if (keys.every((key) => key.endsWith(":lease"))) {
    confirmRenewals(args, answer, sentAt, (owner) => owner.split("|")[0]);
    return;
  }
  const [owner, terms] = args;
  // The last operand is the waiter's inbox, which is empty if the acquire does not queue.
  const grantedMs = /^(\d+) \d+ \d? \d+ \d+ \d+ $/.exec(terms ?? "")?.[1];
  if (grantedMs === undefined) return;
  if (typeof answer === "string") confirm(owner.split("|")[0], sentAt + Number(grantedMs));
  else if (Number(answer?.[0]) === 1) confirm(owner.split("|")[0], sentAt + Number(answer[2]));
};

/**
 * The fencing token is the server's time of the grant, in microseconds. A push that names it can arrive long before the
 * reply to the request, whose sending gives an earlier end.
 */
const confirmGrant = ({ token, fencingToken }) => {
  if (isClockTrue) confirm(token, Math.floor(Number(fencingToken) / 1_000) + leaseMs);
};

// ── the register ────────────────────────────────────────────────────────────────────────────────────────────────────

let accesses = 0;
/** A control: the register accepts everything. */
const isFenced = settings.lie?.name === "unfenced" ? 0 : 1;

const access = async (action, name, lease, base) => {
  const op = `${id}.${++accesses}`;
  const keys = [
    `${prefix}:register:{${name}}:state`,
    `${prefix}:register:{${name}}:history`,
    `${prefix}:lock:{${name}}:lease`,
  ];
  const args = [action, lease.fencingToken, lease.token, id, op, base, isFenced];
  for (let tries = 1; ; tries++)
    try {
      const [verdict, value, owned, micros, msLeft] = await register.call(
        "EVAL",
        registerScript,
        keys.length,
        ...keys,
        ...args,
      );
      // Read in the turn in which the reply arrives: if it is true, the lease was held when the server replied.
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

const work = async (random, name, lease) => {
  confirmGrant(lease);
  const value = await access("read", name, lease, "0");
  if (value === undefined) return;
  await endure(random, name, lease, { fence: lease.fencingToken });
  await access("write", name, lease, value);
};

// ── contending ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** All workers want a few names, and few workers want the others. So there are both queues and free locks. */
const someName = (random) => {
  const hot = Math.min(settings.hotNames, names.length);
  return pick(random, random() < settings.hotChance ? names.slice(0, hot) : names);
};

const client = await subjectClient(settings.url);
const register = await connected(settings.registerUrl, "-register");
overhear(client, note);
const options = { prefix, leaseMs, deadlineMs, holder: id };
const lock = createLock(client, options);
const readWriteLock = createReadWriteLock(client, options);
for (const one of [lock, readWriteLock]) one.on("error", noteBackground);

const sourceOf = (random) => {
  const name = someName(random);
  return {
    name,
    acquire: (options) => lock.acquire(name, options),
    tryAcquire: (options) => lock.tryAcquire(name, options),
    using: (routine, options) => lock.using(name, routine, options),
    resume: (text) => lock.resume(text),
    work: (chance, lease) => work(chance, name, lease),
    grantOf: (lease) => ({ fence: lease.fencingToken }),
    nameOf: (lease) => lease.fencingToken,
  };
};
const sources = [...loopsOf(sourceOf), readWriteSource(readWriteLock), setSource(lock)];
await contendAll(sources, [lock, readWriteLock]);
