import { createRequire } from "node:module";

// OpenTelemetry is a peer of core, and installed there.
const require = createRequire(new URL("../../../core/package.json", import.meta.url));

/** Sets up OpenTelemetry for this process. `spans()` gives those that have ended, as plain facts. */
export const tracing = () => {
  const api = require("@opentelemetry/api");
  const { AsyncLocalStorageContextManager } = require("@opentelemetry/context-async-hooks");
  const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-base");
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  return {
    api,
    tracer: provider.getTracer("test"),
    spans: () =>
      exporter.getFinishedSpans().map((span) => ({
        ...{ name: span.name, kind: span.kind, code: span.status.code, attributes: span.attributes },
        ...{ id: span.spanContext().spanId, trace: span.spanContext().traceId },
        parent: span.parentSpanContext?.spanId ?? span.parentSpanId,
      })),
  };
};
