// Leases of read/write locks: some change their mode while they are held.
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import { attempt, log, pick, settings } from "../../../lab/contender.mjs";
import { confirm, confirmRenewals } from "../../../lab/lease-ends.mjs";
import { endure } from "../../../lab/leases.mjs";

const { documents, deadlineMs, isClockTrue } = settings;

const tokenOf = (record) => record.split("|")[1];

/** Whether a script is one of the read/write lock. Confirms the lease ends in its reply. */
export const noteReadWrite = (keys, args, answer, sentAt) => {
  if (!keys[0]?.includes(":rw-")) return false;
  if (keys.every((key) => key.endsWith(":rw-leases"))) {
    confirmRenewals(args, answer, sentAt, tokenOf);
    return true;
  }
  const [record = "", terms = ""] = args;
  const grantedMs = Number(/^(\d+) \d+ \d? \d+ \d+ \d+ \S*$/.exec(terms)?.[1]);
  if (!grantedMs || !isClockTrue) return true;
  // The server's microseconds of a grant; or its milliseconds, and those that are left.
  const instant = typeof answer === "string" ? answer : answer?.length === 1 ? answer[0] : undefined;
  if (instant !== undefined) confirm(tokenOf(record), Math.floor(Number(instant) / 1_000) + grantedMs);
  else if (Number(answer?.[0]) === 1) confirm(tokenOf(record), Number(answer[1]) + Number(answer[2]));
  return true;
};

/** Logs a span in which the lease was certainly held in one mode. */
const share = (name, lease, mode, from) => {
  const to = clock();
  if (lease.isHeld && lease.mode === mode) log("share", { name, mode, from, to });
};

const work = async (random, name, lease) => {
  const from = clock();
  const { mode } = lease;
  await endure(random, name, lease, { token: lease.token });
  share(name, lease, mode, from);
  if (random() > 0.2) return;
  if (mode === "write") {
    const changedAt = clock();
    await attempt("downgrade", name, deadlineMs, () => lease.downgrade());
    await pause(random() * 10);
    share(name, lease, "read", changedAt);
  } else {
    await attempt("upgrade", name, deadlineMs, () => lease.tryUpgrade());
    const changedAt = clock();
    const now = lease.mode;
    await pause(random() * 10);
    share(name, lease, now, changedAt);
  }
};

/** Mostly readers, on few names. */
export const readWriteSource = (lock) => (random) => {
  const name = pick(random, documents);
  const mode = random() < 0.7 ? lock.read : lock.write;
  return {
    name,
    acquire: (options) => mode.acquire(name, options),
    tryAcquire: (options) => mode.tryAcquire(name, options),
    using: (routine, options) => mode.using(name, routine, options),
    resume: (text) => lock.resume(text),
    work: (chance, lease) => work(chance, name, lease),
    grantOf: ({ token, fencingToken }) => ({ token, ...(fencingToken !== null && { fence: fencingToken }) }),
    nameOf: ({ token }) => token,
  };
};
