import { onAbort } from "@kit/core/toolkit";

/** A signal that aborts with any of some others, or by its controller, and what takes its listeners off. */
export interface LinkedSignal {
  readonly controller: AbortController;
  readonly signal: AbortSignal;
  unlink(): void;
}

export const linkedSignal = (signals: readonly (AbortSignal | undefined)[]): LinkedSignal => {
  const controller = new AbortController();
  const stops = signals.map((signal) => onAbort(signal, () => controller.abort(signal?.reason)));
  return { controller, signal: controller.signal, unlink: () => stops.forEach((stop) => stop()) };
};
