import type { Judge } from "../../common-invariants.js";
import { maxAttempts } from "./history.js";
import type { Story } from "./stories.js";

/** `flows`: no job begins before each of its children has ended. That it begins once they have, `kept` says. */
export const checkFlows = (stories: readonly Story[], judge: Judge<"flows">): void => {
  const byJob = new Map(stories.map((story) => [story.job, story]));
  for (const { job, adds, runs } of stories) {
    const [first] = runs;
    const { name, jobs } = adds[0] ?? { name: "", jobs: [] };
    const children = jobs.find(({ key }) => job === `${name} ${key}`)?.children ?? [];
    for (const child of first ? children : []) {
      const ends = byJob
        .get(`${name} ${child}`)
        ?.runs.flatMap(({ attempt, after }) =>
          after.filter(({ how }) => how === "ok" || (how === "failed" && attempt >= maxAttempts)),
        );
      const hasEnded = ends?.some(({ at }) => at <= (first?.at ?? 0)) === true;
      judge("flows", !hasEnded && `${job} began before its child ${child} had ended`);
    }
  }
};
