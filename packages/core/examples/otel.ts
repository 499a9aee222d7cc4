import { connect } from "@kit/core";
import { persistenceReport } from "@kit/core/durable";
import { traceKit } from "@kit/core/otel";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";

const spans = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });

// With OpenTelemetry set up for the whole process, as usual, `traceKit()` is enough.
const stop = traceKit({ tracer: provider.getTracer("shop") });

const redis = await connect();
await persistenceReport(redis);
for (const { name, attributes } of spans.getFinishedSpans()) console.log(name, attributes["db.system.name"]);

stop();
await redis.close();
