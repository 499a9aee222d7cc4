import { misled } from "./control.js";

// A control of whatever hands leases on by a push: the offer to a waiter that nobody of this server listens for is published
// all the same, and the waiter is passed over. PUBLISH is replicated, so the waiter hears it from a server that became a
// replica, and takes the lease that another got.

/** How a package keeps its waiters. Each is Lua that may use the operands of the script. */
export interface WaitQueue {
  /** The command that reads the waiters, in order. */
  readonly waiters: string;
  /** From `waiter`: for how many milliseconds it is granted, and where it listens. */
  readonly facts: string;
  /** From `waiter`, `now`, `ms` and `micros`: the parts of the message of a grant. */
  readonly message: string;
}

/**
 * One line of Lua for a script that asks `PUBSUB NUMSUB` before an offer. Where the count is 0 it publishes the offer that
 * the script does not make.
 */
export const lateOffers = ({ waiters, facts, message }: WaitQueue): string =>
  misled(
    [
      "if command == 'PUBSUB' and key == 'NUMSUB' then",
      "local reply, inbox = call(...), select(3, ...)",
      `for _, waiter in ipairs(reply[2] == 0 and server.call(${waiters}) or {}) do`,
      `local ms, where = ${facts}`,
      "if ms and where == inbox then",
      "local time = server.call('TIME')",
      "local now, micros = time[1] * 1000 + math.floor(time[2] / 1000), time[1] * 1000000 + time[2]",
      `server.call('PUBLISH', inbox, table.concat(${message}, string.char(9)))`,
      "break end end",
      "return reply end",
    ].join(" "),
  );
