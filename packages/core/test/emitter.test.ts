import { describe, expect, it } from "vitest";
import { TypedEmitter } from "../src/kernel/base/emitter.js";

class Sample extends TypedEmitter<{ error: [Error]; tick: [number, string] }> {
  fire(): void {
    this.emit("tick", 1, "a");
  }
  fail(): void {
    this.emit("error", new Error("x"));
  }
  get hears(): boolean {
    return this.hasListeners("tick");
  }
}

describe("TypedEmitter", () => {
  it("gives each listener the arguments, in the order of registration", () => {
    const sample = new Sample();
    const seen: unknown[] = [];
    sample
      .on("tick", (...args) => seen.push(["first", ...args]))
      .on("tick", (...args) => seen.push(["second", ...args]));
    sample.fire();
    expect(seen).toEqual([
      ["first", 1, "a"],
      ["second", 1, "a"],
    ]);
  });

  it("calls a once listener once, and off takes it off before", () => {
    const sample = new Sample();
    let calls = 0;
    const listener = (): number => calls++;
    sample.once("tick", listener);
    sample.fire();
    sample.fire();
    expect(calls).toBe(1);
    sample.once("tick", listener).off("tick", listener);
    sample.fire();
    expect(calls).toBe(1);
  });

  it("throws nothing for an error that nobody listens to", () => {
    const sample = new Sample();
    expect(() => sample.fail()).not.toThrow();
  });

  it("reaches the other listeners when one throws, and surfaces that error as uncaught", async () => {
    const sample = new Sample();
    let reached = 0;
    sample
      .on("tick", () => {
        throw new Error("of the listener");
      })
      .on("tick", () => reached++);
    const former = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    const uncaught = new Promise<Error>((resolve) => process.once("uncaughtException", resolve));
    sample.fire();
    const error = await uncaught;
    for (const listener of former) process.on("uncaughtException", listener);
    expect(reached).toBe(1);
    expect(error.message).toBe("of the listener");
  });

  it("knows whether there is a listener", () => {
    const sample = new Sample();
    expect(sample.hears).toBe(false);
    sample.on("tick", () => undefined);
    expect(sample.hears).toBe(true);
  });

  it("warns of no leak when many listen", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): number => warnings.push(warning);
    process.on("warning", onWarning);
    const sample = new Sample();
    for (let index = 0; index < 50; index++) sample.on("tick", () => undefined);
    await new Promise(setImmediate);
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });
});
