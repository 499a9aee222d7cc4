import { eventually } from "@kit/testing";

/** Resolves with the work, or after this many milliseconds; leaves no timer behind. */
export const within = async (work: Promise<unknown>, ms: number): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([work, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
};

/** Resolves when `count` exceeds `before`. */
export const grows = async (count: () => number | Promise<number>, before: number): Promise<void> => {
  await eventually(async () => {
    if ((await count()) <= before) throw new Error("the fault had no effect");
  });
};
