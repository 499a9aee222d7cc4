import { channel } from "node:diagnostics_channel";
import { describe, expect, it } from "vitest";
import { traced } from "../src/kernel/base/tracing.js";

const phases = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;

const listen = (name: string): { events: [string, Record<string, unknown>][]; stop: () => void } => {
  const events: [string, Record<string, unknown>][] = [];
  const listeners = phases.map((phase) => {
    const listener = (message: unknown): void => {
      events.push([phase, { ...(message as object) }]);
    };
    const source = channel(`tracing:kit:${name}:${phase}`);
    source.subscribe(listener);
    return () => source.unsubscribe(listener);
  });
  return { events, stop: () => listeners.forEach((stop) => stop()) };
};

describe("traced", () => {
  it("publishes start, end and result, with the context", async () => {
    const { events, stop } = listen("sample.ok");
    const value = await traced(
      "sample.ok",
      () => ({ name: "n" }),
      () => Promise.resolve(7),
    );
    stop();
    expect(value).toBe(7);
    expect(events.map(([phase]) => phase)).toEqual(["start", "end", "asyncStart", "asyncEnd"]);
    expect(events[0]?.[1]).toEqual({ name: "n" });
    expect(events[3]?.[1]).toEqual({ name: "n", result: 7 });
  });

  it("publishes the error, and passes it on", async () => {
    const { events, stop } = listen("sample.bad");
    const error = new Error("x");
    await expect(
      traced(
        "sample.bad",
        () => ({}),
        () => Promise.reject(error),
      ),
    ).rejects.toBe(error);
    stop();
    expect(events.find(([phase]) => phase === "error")?.[1]).toMatchObject({ error });
  });

  it("does not even make the context while there is no listener", async () => {
    let made = 0;
    const context = (): object => ({ made: ++made });
    await traced("sample.unheard", context, () => Promise.resolve(1));
    expect(made).toBe(0);
    const { stop } = listen("sample.unheard");
    await traced("sample.unheard", context, () => Promise.resolve(1));
    stop();
    await traced("sample.unheard", context, () => Promise.resolve(1));
    expect(made).toBe(1);
  });
});
