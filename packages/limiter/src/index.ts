export { LimiterBusyError, LimiterTimeoutError, LimiterTokensError, LimiterWaitError } from "./errors.js";
export { createLimiter } from "./limiter.js";

export type { CloseOptions, MetricSample, MetricSource } from "@kit/core/toolkit";
export type { LimiterErrorCode } from "./errors.js";
export type { Decision, Limiter, LimiterEvents } from "./limiter.js";
export type { ConsumeOptions, Limit, LimiterOptions, Limits, WaitOptions } from "./options.js";
