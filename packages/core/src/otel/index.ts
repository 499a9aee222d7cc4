import { AsyncLocalStorage } from "node:async_hooks";
import { type Channel, type TracingChannelSubscribers, tracingChannel } from "node:diagnostics_channel";
import {
  type Attributes,
  type Context,
  context as contexts,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from "@opentelemetry/api";
import { KitError } from "../index.js";
import { carryTraces, onTraced, optionsObject } from "../kernel/index.js";

/** How to trace. */
export interface TraceOptions {
  /** @default `trace.getTracer("@kit/core")` */
  readonly tracer?: Tracer | undefined;
}

/** The message of a channel's events: the operation's facts and outcome. */
interface Message {
  readonly result?: unknown;
  readonly error?: unknown;
}

/** A kit span, and the context in which it started. */
interface Place {
  readonly span: Span;
  readonly outside: Context;
  /** The callbacks of a socket run in the context of the operation that opened it, for as long as the socket lives. */
  isOver: boolean;
}

/**
 * Creates a span for each operation of every kit package in this process. Returns a function that stops this.
 *
 * A span has the operation's name (`lock.acquire`) and its facts as `kit.*`. Its parent is your active OpenTelemetry span, or the
 * span of the surrounding kit operation. A failed span has status ERROR and the error's code as `error.type`. Packages need no
 * configuration, and you can load them later.
 *
 * A job of `@kit/queue` carries the span that added it. Its handler runs in a span `queue.run` of that trace, in any process. This
 * needs an OpenTelemetry context manager, which the SDK for Node sets up. If you call `traceKit()` several times, jobs use the
 * tracer of the last call.
 *
 * When you stop tracing, running spans end at that moment.
 *
 * @throws {TypeError} an option is invalid.
 *
 * @example
 * const stop = traceKit();
 */
export const traceKit = (options: TraceOptions = {}): (() => void) => {
  const { tracer = trace.getTracer("@kit/core") } = optionsObject("options", options, ["tracer"]);
  const places = new AsyncLocalStorage<Place>();
  const underWay = new Map<object, Place>();

  // The innermost span of kit and of the caller. A span that the caller opened since then is inside of kit's.
  const innermost = (outside: Context): Context => {
    const around = places.getStore();
    const isInside = around !== undefined && !around.isOver && around.outside === outside;
    return isInside ? trace.setSpan(outside, around.span) : outside;
  };
  const begin = (name: string, message: object): Place => {
    const outside = contexts.active();
    const parent = innermost(outside);
    const span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes: attributesOf(message) }, parent);
    const place = { span, outside, isOver: false };
    underWay.set(message, place);
    return place;
  };
  const end = (message: object): void => {
    const place = underWay.get(message);
    if (!place) return;
    underWay.delete(message);
    place.isOver = true;
    place.span.end();
  };
  const subscribers = {
    error: (message: Message) => {
      const span = underWay.get(message)?.span;
      if (span) fail(span, message.error);
    },
    // An operation that throws before it returns a promise ends here. Any other has just started.
    end: (message: Message) => "error" in message && end(message),
    asyncEnd: end,
  } as unknown as TracingChannelSubscribers<object>;

  const stops: (() => void)[] = [];
  const listen = (name: string): void => {
    const channel = tracingChannel<object, object>(`kit:${name}`);
    const start = channel.start as Channel<object, object>;
    start.bindStore(places, (message) => begin(name, message));
    channel.subscribe(subscribers as Parameters<typeof channel.subscribe>[0]);
    stops.push(() => {
      start.unbindStore(places);
      channel.unsubscribe(subscribers as Parameters<typeof channel.unsubscribe>[0]);
    });
  };
  stops.push(onTraced(listen));
  stops.push(
    carryTraces({
      current: () => traceparentOf(trace.getSpanContext(innermost(contexts.active()))),
      consume: (name, facts, parent, work) => {
        const remote = remoteOf(parent);
        const outside = remote ? trace.setSpanContext(ROOT_CONTEXT, remote) : ROOT_CONTEXT;
        const span = tracer.startSpan(name, { kind: SpanKind.CONSUMER, attributes: attributesOf(facts) }, outside);
        return contexts.with(trace.setSpan(outside, span), () => ended(span, work));
      },
    }),
  );

  return () => {
    for (const stop of stops.splice(0)) stop();
    for (const message of underWay.keys()) end(message);
  };
};

const fail = (span: Span, error: unknown): void => {
  span.setAttribute("error.type", typeOf(error));
  span.setStatus({ code: SpanStatusCode.ERROR, ...descriptionOf(error) });
};

/** Runs `work`, and ends the span when it returns or settles. */
const ended = <T>(span: Span, work: () => T): T => {
  const failed = (error: unknown): never => {
    fail(span, error);
    span.end();
    throw error;
  };
  try {
    const result: unknown = work();
    if (typeof (result as PromiseLike<unknown> | undefined)?.then !== "function") {
      span.end();
      return result as T;
    }
    return Promise.resolve(result).then((value) => {
      span.end();
      return value;
    }, failed) as T;
  } catch (error) {
    return failed(error);
  }
};

/** A span as a W3C traceparent, version 00. */
const traceparentOf = (span: SpanContext | undefined): string | undefined =>
  span && isSpanContextValid(span)
    ? `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, "0")}`
    : undefined;

/** A span of another process. Undefined if the text is not a traceparent. */
const remoteOf = (traceparent = ""): SpanContext | undefined => {
  const [, traceId = "", spanId = "", flags = ""] =
    /^00-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/.exec(traceparent) ?? [];
  const span = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(span) ? span : undefined;
};

/** The facts that a span can hold. Infinity (a wait without a limit) is left out. */
const attributesOf = (message: object): Attributes => {
  const attributes: Attributes = { "db.system.name": "redis" };
  for (const [name, value] of Object.entries(message) as [string, unknown][])
    if (
      typeof value === "string" ||
      typeof value === "boolean" ||
      (typeof value === "number" && Number.isFinite(value))
    )
      attributes[`kit.${name}`] = value;
  return attributes;
};

const typeOf = (error: unknown): string => {
  if (KitError.is(error)) return error.code;
  try {
    return error instanceof Error ? error.name : typeof error;
  } catch {
    // Its `name` throws, or it is a revoked Proxy.
    return typeof error;
  }
};

/** Only kit's own messages are known to contain no secrets. */
const descriptionOf = (error: unknown): { message?: string } =>
  KitError.is(error) && !error.quotesOthers ? { message: error.message } : {};
