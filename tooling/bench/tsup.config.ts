import { application, entriesOf } from "@tooling/build";

/**
 * `main` is the program; `worker` is the process it forks per implementation, `idle` the thread it starts per idle
 * object, and `checkout` the hook that a worker may register. `main` finds them in its folder. It finds the suites and their
 * workers' jobs by their folders. These share their modules with `main` and `worker`; a suite of an application shares
 * them through `index`.
 */
export default {
  ...application({
    index: "src/index.ts",
    main: "src/main.ts",
    worker: "src/worker.ts",
    idle: "src/costs/idle.ts",
    checkout: "src/checkout.ts",
    ...entriesOf("src/suites", { suite: "index.ts", jobs: "jobs.ts" }),
  }),
  splitting: true,
  // TypeScript source, so it is bundled; everything else is imported as it is published.
  noExternal: ["@tooling/classic"],
};
