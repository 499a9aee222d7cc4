import type { PackageDescriptor } from "@kit/core/toolkit";
import { createLimiter } from "../index.js";
import { limitsCheck } from "./check.js";
import { limiterInspector } from "./inspect.js";

/** The description of this package for the command line. */
export const descriptor: PackageDescriptor = {
  name: "limiter",
  things: "limiters",
  permissions: {
    tried: (key) => [
      ["DEL", key],
      ["GET", key],
    ],
    asked: (key) => [["SET", key, ""]],
  },
  // Limits that were set at run time apply until they are replaced.
  endlessKeys: [{ key: /^\{.*\}:limits$/s }],
  inspectors: [limiterInspector],
  checks: [limitsCheck],
  commands: [
    {
      path: "limiter reset",
      buttons: [{ thing: "limiter", text: "Reset a key" }],
      about: "forgets a key of a limiter: its block ends, and nothing of its limits is in use",
      args: [
        { name: "name", about: "the limiter", listedIn: "limiters" },
        { name: "key", about: "the key, as in `consume(key)`" },
      ],
      run: async ({ redis, prefix, output }, name: string, key: string) => {
        const limiter = createLimiter(redis, name, { limits: { unused: { count: 1, perMs: 1 } }, prefix });
        try {
          await limiter.reset(key);
        } finally {
          await limiter.close();
        }
        await output.report({
          data: { limiter: name, key, reset: true },
          facts: [
            ["limiter", name],
            ["key", key],
            ["reset", "done. Processes that remember a refusal allow calls within rememberMs"],
          ],
        });
      },
    },
  ],
};
