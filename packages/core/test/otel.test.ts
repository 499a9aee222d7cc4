import { AsyncResource } from "node:async_hooks";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { startRedis } from "@kit/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { KitError } from "../src/index.js";
import { onTraced } from "../src/kernel/index.js";
import { traceCarrier, traced } from "../src/toolkit/index.js";
import { traceKit } from "../src/otel/index.js";
import { rejection, runProgram } from "./harness.js";

const require = createRequire(import.meta.url);
const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const tracer = provider.getTracer("test");
const manager = new AsyncLocalStorageContextManager();

beforeAll(() => {
  context.setGlobalContextManager(manager.enable());
});
afterAll(async () => {
  context.disable();
  trace.disable();
  await provider.shutdown();
});
beforeEach(() => exporter.reset());

/** Traces until the test ends, or the result is called. */
const tracing = (): (() => void) => {
  const stop = traceKit({ tracer });
  onTestFinished(stop);
  return stop;
};

const run = <T>(name: string, operation: () => Promise<T>, facts: object = {}): Promise<T> =>
  traced(name, () => facts, operation);
const spans = () => exporter.getFinishedSpans();
const span = (name: string) => {
  const found = spans().find((one) => one.name === name);
  if (!found) throw new Error(`There is no span ${name}`);
  return found;
};

/** A promise, and what resolves it. */
const executor = (): { opened: Promise<void>; open: () => void } => {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
};

describe("traceKit", () => {
  it("makes a span of an operation, with its facts", async () => {
    tracing();
    const facts = { name: "n", waitMs: 5, isIt: true, forever: Infinity, thing: {}, nothing: undefined };
    expect(await run("otel.ok", () => Promise.resolve(7), facts)).toBe(7);
    expect(spans()).toHaveLength(1);
    expect(span("otel.ok")).toMatchObject({ kind: SpanKind.CLIENT, status: { code: SpanStatusCode.UNSET } });
    expect(span("otel.ok").attributes).toEqual({
      "db.system.name": "redis",
      "kit.name": "n",
      "kit.waitMs": 5,
      "kit.isIt": true,
    });
  });

  it("lasts as long as the operation", async () => {
    tracing();
    const { opened, open } = executor();
    const work = run("otel.long", () => opened);
    await Promise.resolve();
    expect(spans()).toEqual([]);
    open();
    await work;
    expect(span("otel.long").ended).toBe(true);
  });

  it("marks a failure, with the code of our error", async () => {
    tracing();
    const error = new KitError("KIT_BUSY", "The server is busy");
    expect(await rejection(run("otel.bad", () => Promise.reject(error)))).toBe(error);
    expect(span("otel.bad").status).toEqual({ code: SpanStatusCode.ERROR, message: "The server is busy" });
    expect(span("otel.bad").attributes["error.type"]).toBe("KIT_BUSY");
  });

  it("does not repeat the words of an error that is not ours", async () => {
    tracing();
    await rejection(run("otel.foreign", () => Promise.reject(new RangeError("secret"))));
    expect(span("otel.foreign").status).toEqual({ code: SpanStatusCode.ERROR });
    expect(span("otel.foreign").attributes["error.type"]).toBe("RangeError");
    expect(JSON.stringify([span("otel.foreign").attributes, span("otel.foreign").events])).not.toContain("secret");
  });

  it("does not repeat the words of others that an error of ours quotes", async () => {
    tracing();
    const error = new KitError("KIT_SERVER", "EVAL failed: ERR secret", { quotesOthers: true });
    await rejection(run("otel.quoting", () => Promise.reject(error)));
    expect(span("otel.quoting").status).toEqual({ code: SpanStatusCode.ERROR });
    expect(span("otel.quoting").attributes["error.type"]).toBe("KIT_SERVER");
  });

  it("marks a failure whose error cannot be read", async () => {
    tracing();
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    const fail = async (): Promise<never> => {
      await Promise.resolve();
      throw revoked.proxy;
    };
    await expect(run("otel.unreadable", fail).catch(() => "failed")).resolves.toBe("failed");
    expect(span("otel.unreadable").status).toEqual({ code: SpanStatusCode.ERROR });
    expect(span("otel.unreadable").attributes["error.type"]).toBe("object");
  });

  it("ends the span of an operation that throws before it gives a promise", async () => {
    tracing();
    const fail = (): Promise<never> => {
      throw new KitError("KIT_NAME", "No name");
    };
    await expect(run("otel.thrown", fail)).rejects.toThrow("No name");
    expect(span("otel.thrown").status.code).toBe(SpanStatusCode.ERROR);
  });

  it("has the caller's span as parent", async () => {
    tracing();
    await tracer.startActiveSpan("request", async (request) => {
      await run("otel.child", () => Promise.resolve());
      request.end();
    });
    expect(span("otel.child").parentSpanContext?.spanId).toBe(span("request").spanContext().spanId);
    await run("otel.root", () => Promise.resolve());
    expect(span("otel.root").parentSpanContext).toBeUndefined();
  });

  it("has the operation around it as parent, or what the caller opened inside of that", async () => {
    tracing();
    await run("otel.outer", async () => {
      await run("otel.inner", () => Promise.resolve());
      await tracer.startActiveSpan("between", async (between) => {
        await run("otel.innermost", () => Promise.resolve());
        between.end();
      });
    });
    const parentOf = (name: string): string | undefined => span(name).parentSpanContext?.spanId;
    expect(parentOf("otel.inner")).toBe(span("otel.outer").spanContext().spanId);
    expect(parentOf("otel.innermost")).toBe(span("between").spanContext().spanId);
    await run("otel.after", () => Promise.resolve());
    expect(parentOf("otel.after")).toBeUndefined();
  });

  it("keeps operations apart that run at once", async () => {
    tracing();
    const { opened, open } = executor();
    const work = ["one", "two"].map((name) =>
      run(`otel.${name}`, async () => {
        await opened;
        await run(`otel.in-${name}`, () => Promise.resolve());
      }),
    );
    open();
    await Promise.all(work);
    for (const name of ["one", "two"])
      expect(span(`otel.in-${name}`).parentSpanContext?.spanId).toBe(span(`otel.${name}`).spanContext().spanId);
  });

  it("is not the parent of what a connection calls back after the operation that opened it", async () => {
    tracing();
    let connection: AsyncResource | undefined;
    await run("otel.opens", () => {
      connection = new AsyncResource("connection");
      return Promise.resolve();
    });
    await connection!.runInAsyncScope(() => run("otel.later-call", () => Promise.resolve()));
    expect(span("otel.later-call").parentSpanContext).toBeUndefined();
  });

  it("sees operations that ran before it, and those that nobody had run", async () => {
    await run("otel.known", () => Promise.resolve());
    tracing();
    await run("otel.known", () => Promise.resolve());
    await run("otel.unknown", () => Promise.resolve());
    expect(spans().map(({ name }) => name)).toEqual(["otel.known", "otel.unknown"]);
  });

  it("sees the operations of another installed copy", async () => {
    tracing();
    const other = require("../dist/toolkit.cjs") as { traced: typeof traced };
    await other.traced(
      "otel.elsewhere",
      () => ({}),
      () => Promise.resolve(),
    );
    expect(spans().map(({ name }) => name)).toEqual(["otel.elsewhere"]);
  });

  it("stops on request, ends what is under way, and lets the operation finish", async () => {
    const stop = tracing();
    const { opened, open } = executor();
    const work = run("otel.cut", () => opened.then(() => "done"));
    stop();
    expect(span("otel.cut").ended).toBe(true);
    open();
    expect(await work).toBe("done");
    await run("otel.later", () => Promise.resolve());
    await run("otel.new-later", () => Promise.resolve());
    stop();
    expect(spans()).toHaveLength(1);
  });

  it("uses the global tracer when none is given", async () => {
    trace.setGlobalTracerProvider(provider);
    onTestFinished(traceKit());
    await run("otel.global", () => Promise.resolve());
    expect(span("otel.global").instrumentationScope.name).toBe("@kit/core");
  });

  it("refuses an option that means nothing", () => {
    expect(() => traceKit({ trace: tracer } as object)).toThrow(TypeError);
  });
});

describe("the trace carrier of traceKit", () => {
  const remote = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;

  it("names the innermost span as a traceparent, and none without a span", async () => {
    expect(traceCarrier()).toBeUndefined();
    const stop = tracing();
    expect(traceCarrier()?.current()).toBeUndefined();
    const inside = await run("otel.carried", () => Promise.resolve(traceCarrier()?.current()));
    const { traceId, spanId } = span("otel.carried").spanContext();
    expect(inside).toBe(`00-${traceId}-${spanId}-01`);
    stop();
    expect(traceCarrier()).toBeUndefined();
  });

  it("runs work in a span of another process, whatever it returns or throws", async () => {
    tracing();
    const consume = <T>(name: string, work: () => T, parent?: string): T =>
      traceCarrier()!.consume(name, { job: name }, parent, work);
    expect(consume("sync", () => 5, remote)).toBe(5);
    expect(
      await consume("async", () => Promise.resolve(context.active() && trace.getActiveSpan()), remote),
    ).toBeDefined();
    expect(() =>
      consume("thrown", () => {
        throw new TypeError("no");
      }),
    ).toThrow(TypeError);
    expect(await rejection(consume("rejected", () => Promise.reject(new RangeError("no")), "nonsense"))).toBeInstanceOf(
      RangeError,
    );
    for (const name of ["sync", "async"]) {
      expect(span(name)).toMatchObject({ kind: SpanKind.CONSUMER, status: { code: SpanStatusCode.UNSET } });
      expect(span(name).spanContext().traceId).toBe("1".repeat(32));
      expect(span(name).parentSpanContext?.spanId).toBe("2".repeat(16));
      expect(span(name).attributes).toMatchObject({ "kit.job": name });
    }
    for (const [name, type] of [
      ["thrown", "TypeError"],
      ["rejected", "RangeError"],
    ] as const) {
      expect(span(name).parentSpanContext).toBeUndefined();
      expect(span(name)).toMatchObject({ status: { code: SpanStatusCode.ERROR }, attributes: { "error.type": type } });
    }
  });
});

describe("onTraced", () => {
  it("reports each name once, and none after its end", async () => {
    await run("seen.before", () => Promise.resolve());
    const heard: string[] = [];
    const stop = onTraced((name) => heard.push(name));
    await run("seen.before", () => Promise.resolve());
    await run("seen.after", () => Promise.resolve());
    await run("seen.after", () => Promise.resolve());
    stop();
    await run("seen.never", () => Promise.resolve());
    expect(heard.filter((name) => name.startsWith("seen."))).toEqual(["seen.before", "seen.after"]);
  });
});

describe("the page on tracing", () => {
  it("names each channel that core publishes", () => {
    const folder = fileURLToPath(new URL("../src/", import.meta.url));
    const names = readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .flatMap((file) => [...readFileSync(join(folder, file), "utf8").matchAll(/(?:traced|#asked)\(\s*"([\w.]+)"/g)])
      .map(([, name]) => name);
    expect(names.length).toBeGreaterThan(5);
    const readme = readFileSync(new URL("../docs/tracing.md", import.meta.url), "utf8");
    expect(names.filter((name) => !readme.includes(`\`kit:${name}\``))).toEqual([]);
  });
});

describe("the main entry", () => {
  it("works without OpenTelemetry, and does not load it", async () => {
    await using server = await startRedis();
    const source = `
      const { connect } = await import("./dist/index.js");
      const redis = await connect({ url: ${JSON.stringify(server.url)}, deadlineMs: 60_000 });
      await redis.ping();
      await redis.close();
      const loaded = Object.keys((await import("node:module")).default._cache);
      process.stdout.write(String(loaded.filter((file) => /opentelemetry/.test(file)).length));`;
    expect(await runProgram(source)).toEqual({ stdout: "0", stderr: "", code: 0 });
  });
});
