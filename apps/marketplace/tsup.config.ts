import { application } from "@tooling/build";

const programs = (room: string, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, `src/${room}/${name}.ts`]));

/** `main` is the program; the others are the processes it forks, found beside it. */
export default {
  ...application({
    main: "src/main.ts",
    visitors: "src/visitors.ts",
    // Found here by `npm run bench -- marketplace`.
    "marketplace.suite": "src/bench/index.ts",
    "marketplace.jobs": "src/bench/jobs.ts",
    ...programs("race", ["buyers", "holder", "recount"]),
    ...programs("behind", ["consumer", "partners", "sellers", "shipper", "traffic", "wire", "worker"]),
  }),
  // The ports of the textbook algorithms are TypeScript source, so they are bundled; everything else is imported.
  noExternal: ["@tooling/classic"],
};
