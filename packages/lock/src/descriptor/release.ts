import type { CliCommand } from "@kit/core/toolkit";
import { createLock } from "../index.js";
import { leaseText } from "./inspect.js";

export const releaseCommand: CliCommand = {
  path: "lock release",
  about: "takes a lock away from a holder that is certainly gone; a dry run unless --run is given",
  args: [{ name: "name", about: "name of the lock", listedIn: "locks" }],
  options: [{ name: "run", about: "does it; without it only says what would be done" }],
  run: async ({ redis, prefix, isSet, output }, name: string) => {
    const lock = createLock(redis, { prefix });
    try {
      if (isSet("run")) {
        const holder = await lock.forceRelease(name);
        await output.report({
          data: { lock: name, isDryRun: false, holder },
          facts: [["released", holder === null ? "nothing: nobody holds it" : `${name}, which ${holder} had`]],
        });
        return;
      }
      const { holder, msLeft, waiters } = await lock.inspect(name);
      const lease = msLeft === Infinity ? null : msLeft;
      await output.report({
        data: { lock: name, isDryRun: true, holder, msLeft: lease, waiters },
        facts:
          holder === null
            ? [["would be released", "nothing: nobody holds it"]]
            : [
                ["would be released", name],
                ["holder", holder],
                ["lease", leaseText(lease)],
                ["waiters", String(waiters)],
                ["before", "see that the holder is gone: one that runs notices the loss only at its next renewal"],
                ["to do it", "the same command with --run"],
              ],
      });
    } finally {
      await lock.close();
    }
  },
};
