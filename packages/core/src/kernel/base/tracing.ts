import { channel, tracingChannel, type TracingChannel } from "node:diagnostics_channel";
import { withCaller } from "./errors.js";

type Names = Set<string>;

// Shared by all installed copies of this package: a listener receives the operations of each.
const registry = Symbol.for("kit.tracing");
const shared = globalThis as { [registry]?: Names };
const names: Names = (shared[registry] ??= new Set());

/** diagnostics_channel has no wildcard, so each new name is published here before its first operation. */
const announcements = channel("kit:channels");
const channels = new Map<string, TracingChannel<object, object>>();

const open = (name: string): TracingChannel<object, object> => {
  const made = tracingChannel<object, object>(`kit:${name}`);
  channels.set(name, made);
  if (!names.has(name)) {
    names.add(name);
    announcements.publish({ name });
  }
  return made;
};

/** Like {@link traced}, for a caller that adds its own stack to an error. */
export const beginTraced = <T>(name: string, context: () => object, operation: () => Promise<T>): Promise<T> => {
  const found = channels.get(name) ?? open(name);
  return found.hasSubscribers ? found.tracePromise(operation, context()) : operation();
};

/**
 * Runs `operation` inside the diagnostics channel `kit:<name>`. Its `start`, `end`, `asyncStart`, `asyncEnd` and `error` events
 * carry `context()`. That object goes to traces and logs, so give it names and numbers, never contents or tokens. Without a
 * listener the cost is one look-up. The stack of an error leads to the caller that awaits the operation.
 */
export const traced = async <T>(name: string, context: () => object, operation: () => Promise<T>): Promise<T> => {
  try {
    return await beginTraced(name, context, operation);
  } catch (error) {
    throw withCaller(error);
  }
};

/** Carries a trace from process to process. `traceKit()` of `@kit/core/otel` registers one. */
export interface TraceCarrier {
  /** The current span, as a W3C traceparent. Undefined if there is none. */
  readonly current: () => string | undefined;
  /**
   * Runs `work` in a span with this name and these facts. `parent` is the traceparent of another process; if undefined, the span
   * starts a new trace.
   */
  readonly consume: <T>(name: string, facts: object, parent: string | undefined, work: () => T) => T;
}

const carrier = Symbol.for("kit.traceCarrier");
const carried = globalThis as { [carrier]?: TraceCarrier | undefined };

/** Undefined if tracing is not set up in this process. */
export const traceCarrier = (): TraceCarrier | undefined => carried[carrier];

/** Registers a carrier for all packages in this process, replacing any earlier one. Returns a function that removes it. */
export const carryTraces = (offered: TraceCarrier): (() => void) => {
  carried[carrier] = offered;
  return () => {
    if (carried[carrier] === offered) carried[carrier] = undefined;
  };
};

/**
 * Calls `listener` once for each traced operation, with its name: immediately if the operation has run before, otherwise before its
 * first run. Returns a function that stops this.
 */
export const onTraced = (listener: (name: string) => void): (() => void) => {
  const hear = (message: unknown): void => listener((message as { readonly name: string }).name);
  announcements.subscribe(hear);
  for (const name of names) listener(name);
  return () => {
    announcements.unsubscribe(hear);
  };
};
