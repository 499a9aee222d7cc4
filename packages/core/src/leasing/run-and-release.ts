import type { ReleaseOutcome } from "./held.js";

/**
 * Runs `routine` with a held object, and then releases the object, even after an error. The routine's error takes precedence. A
 * failed release does not change the result: the release is retried in the background.
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
