// A process with a traced worker: traced.mjs <port> <prefix> <queue>
import { traceKit } from "@kit/core/otel";
import { createQueue } from "@kit/queue";
import { clientOf, obey } from "@tooling/vitest/peer";
import { tracing } from "./tracing.mjs";

const ioredis = await import("ioredis");
const [port, prefix, name] = process.argv.slice(2);
const queue = createQueue(clientOf(ioredis, "single", port, {}), name, { prefix });
const { api, tracer, spans } = tracing();
traceKit({ tracer });

const job = async ({ data, traceparent }) => {
  await Promise.resolve();
  tracer.startSpan("own").end();
  if (data === "broken") throw new TypeError("no");
  return `${traceparent} ${api.trace.getActiveSpan().spanContext().traceId}`;
};

obey({
  ready: () => void queue.work({ job }),
  spans,
});
