import { KitError } from "@kit/core";

const awayCodes = new Set(["KIT_UNAVAILABLE", "KIT_UNKNOWN_OUTCOME", "KIT_CLOSED", "KIT_LOCK_LOST"]);

/** Whether an error means that Redis does not answer now. ioredis has no own class for most of these errors. */
export const isAway = (error: unknown): boolean => {
  if (KitError.is(error)) return error.retryable || awayCodes.has(error.code);
  if (!(error instanceof Error)) return false;
  return (
    error.name === "MaxRetriesPerRequestError" ||
    /^(Connection is closed|Command timed out|Stream isn't writeable|LOADING|CLUSTERDOWN|MASTERDOWN|READONLY)/.test(
      error.message,
    ) ||
    /^(ECONN|EPIPE|ETIMEDOUT)/.test((error as NodeJS.ErrnoException).code ?? "")
  );
};
