import type { ReleaseOutcome } from "./held.js";

/**
 * Runs `routine` with what is held, and releases it, also after an error of the routine, which takes precedence. A release that
 * failed has no outcome: it is retried in the background, and the result stands.
 */
export const runAndRelease = async <Held extends { release(): Promise<ReleaseOutcome> }, T>(
  held: Held,
  routine: (held: Held) => Promise<T> | T,
): Promise<{ readonly result: T; readonly outcome: ReleaseOutcome | undefined }> => {
  let result: T;
  try {
    result = await routine(held);
  } catch (error) {
    await held.release().catch(() => undefined);
    throw error;
  }
  return { result, outcome: await held.release().catch(() => undefined) };
};
