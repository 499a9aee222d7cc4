import { application, entriesOf } from "@tooling/build";

/** `main` is the program. The workloads are found by their folders, and share their modules with it. */
export default {
  ...application({ main: "src/main.ts", ...entriesOf("src/workloads", { workload: "index.ts" }) }),
  splitting: true,
};
