import { application } from "@tooling/build";

/** `main` is the program; the others are the processes it forks, found beside it. */
export default {
  ...application({
    main: "src/main.ts",
    buyers: "src/buyers.ts",
    recount: "src/recount.ts",
    visitors: "src/visitors.ts",
    holder: "src/holder.ts",
    // Found here by `npm run bench -- marketplace`.
    "marketplace.suite": "src/bench/index.ts",
    "marketplace.jobs": "src/bench/jobs.ts",
    ...Object.fromEntries(
      ["consumer", "partners", "sellers", "shipper", "traffic", "wire", "worker"].map((name) => [
        name,
        `src/crew/${name}.ts`,
      ]),
    ),
  }),
  // The ports of the textbook algorithms are TypeScript source, so they are bundled; everything else is imported.
  noExternal: ["@tooling/classic"],
};
