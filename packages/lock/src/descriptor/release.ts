import type { CliCommand } from "@kit/core/toolkit";
import { createLock } from "../index.js";
import { leaseText } from "./inspect.js";

export const releaseCommand: CliCommand = {
  path: "lock release",
  buttons: [{ thing: "lock", text: "Release", when: ({ state }) => state === "held" }],
  about: "release a lock whose holder no longer runs (dry run unless you pass --run)",
  args: [{ name: "name", about: "name of the lock", listedIn: "locks" }],
  options: [{ name: "run", about: "apply the change; without it, only show what would change" }],
  run: async ({ redis, prefix, isSet, output }, name: string) => {
    const lock = createLock(redis, { prefix });
    try {
      if (isSet("run")) {
        const holder = await lock.forceRelease(name);
        await output.report({
          data: { lock: name, isDryRun: false, holder },
          facts: [["released", holder === null ? "nothing: the lock is free" : `${name}, held by ${holder}`]],
        });
        return;
      }
      const { holder, msLeft, waiters } = await lock.inspect(name);
      const lease = msLeft === Infinity ? null : msLeft;
      await output.report({
        data: { lock: name, isDryRun: true, holder, msLeft: lease, waiters },
        facts:
          holder === null
            ? [["would be released", "nothing: the lock is free"]]
            : [
                ["would be released", name],
                ["holder", holder],
                ["lease", leaseText(lease)],
                ["waiters", String(waiters)],
                [
                  "warning",
                  "a holder that still runs notices the loss only at its next renewal. Check that it is stopped",
                ],
                ["next step", "run the same command with --run"],
              ],
      });
    } finally {
      await lock.close();
    }
  },
};
