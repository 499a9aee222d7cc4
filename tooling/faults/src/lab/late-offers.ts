import { misled } from "./control.js";

// A control of whatever hands leases on by a push: after a failover, the offer to a waiter is published, and the waiter is
// passed over as if it did not listen. It takes the lease that another waiter gets.

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
 * One line of Lua for a script that asks `PUBSUB NUMSUB` before an offer. On a server that was promoted it publishes the
 * offer and answers 0, so that the script makes the offer to the next waiter.
 */
export const lateOffers = ({ waiters, facts, message }: WaitQueue): string =>
  misled(
    [
      "if command == 'PUBSUB' and key == 'NUMSUB' then",
      "local reply, inbox = call(...), select(3, ...)",
      // The offset is -1 on a server that was never a replica.
      "local isPromoted = string.find(server.call('INFO', 'replication'), 'second_repl_offset:%d')",
      `for _, waiter in ipairs(isPromoted and server.call(${waiters}) or {}) do`,
      `local ms, where = ${facts}`,
      "if ms and where == inbox then",
      "local time = server.call('TIME')",
      "local now, micros = time[1] * 1000 + math.floor(time[2] / 1000), time[1] * 1000000 + time[2]",
      `server.call('PUBLISH', inbox, table.concat(${message}, string.char(9)))`,
      "reply[2] = 0 break end end",
      "return reply end",
    ].join(" "),
  );
