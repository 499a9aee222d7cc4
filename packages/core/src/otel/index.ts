import { AsyncLocalStorage } from "node:async_hooks";
import { type Channel, type TracingChannelSubscribers, tracingChannel } from "node:diagnostics_channel";
import {
  type Attributes,
  type Context,
  context as contexts,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from "@opentelemetry/api";
import { KitError } from "../index.js";
import { onTraced, optionsObject } from "../toolkit/index.js";

/** How to trace. */
export interface TraceOptions {
  /** @default `trace.getTracer("@kit/core")` */
  readonly tracer?: Tracer | undefined;
}

/** The message of a channel's events: the operation's facts, and its end. */
interface Message {
  readonly result?: unknown;
  readonly error?: unknown;
}

/** A span of ours, and the context in which it began. */
interface Place {
  readonly span: Span;
  readonly outside: Context;
  /** The callbacks of a socket run in the context of the operation that opened it, for as long as it lives. */
  isOver: boolean;
}

/**
 * Makes a span of each operation of every kit package in this process, and returns what stops that.
 *
 * A span has the operation's name (`lock.acquire`), its facts as `kit.*`, and the span around it as its parent: yours, by
 * OpenTelemetry's active context, or that of the kit operation in which it runs. One that fails has status ERROR and
 * `error.type`: the error's code. Packages need no setting for it, and need not be loaded before.
 *
 * Spans that are under way when it is stopped end at that moment.
 *
 * @throws {TypeError} an option is not what it should be.
 *
 * @example
 * const stop = traceKit();
 */
export const traceKit = (options: TraceOptions = {}): (() => void) => {
  const { tracer = trace.getTracer("@kit/core") } = optionsObject("options", options, ["tracer"]);
  const places = new AsyncLocalStorage<Place>();
  const underWay = new Map<object, Place>();

  const begin = (name: string, message: object): Place => {
    const outside = contexts.active();
    const around = places.getStore();
    // The innermost of the two: a span that the caller opened since then is inside of ours.
    const isInside = around !== undefined && !around.isOver && around.outside === outside;
    const parent = isInside ? trace.setSpan(outside, around.span) : outside;
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
      span?.setAttribute("error.type", typeOf(message.error));
      span?.setStatus({ code: SpanStatusCode.ERROR, ...descriptionOf(message.error) });
    },
    // An operation that throws before it gives a promise ends here, any other has just begun.
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

  return () => {
    for (const stop of stops.splice(0)) stop();
    for (const message of underWay.keys()) end(message);
  };
};

/** Facts that a span can hold; infinity (a wait without end) is none. */
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
  return error instanceof Error ? error.name : typeof error;
};

/** Only kit's own messages are known to contain no secrets. */
const descriptionOf = (error: unknown): { message?: string } => (KitError.is(error) ? { message: error.message } : {});
