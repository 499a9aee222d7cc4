import { KitUnknownOutcomeError } from "@kit/core";

/** Only labels of jobs, expiries and the order of producers depend on this clock. */
export const wallMs = (): number => performance.timeOrigin + performance.now();

/** Whether the call may have had an effect. */
export const isUnknown = (error: unknown): boolean => error instanceof KitUnknownOutcomeError;
