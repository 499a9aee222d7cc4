import { application } from "@tooling/build";

/** `main` is the program; `worker` is the process it forks per contestant, found beside it. */
export default {
  ...application({ main: "src/main.ts", worker: "src/worker.ts" }),
  // TypeScript source, so it is bundled; everything else is imported as it is published.
  noExternal: ["@tooling/classic", "@apps/marketplace"],
};
