import { AsyncLocalStorage } from "node:async_hooks";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { useRedis } from "@kit/testing";
import { OwnAbortController } from "../src/kernel/base/async-context.js";
import { atDeadline, Deadline } from "../src/kernel/base/deadline.js";
import { TypedEmitter } from "../src/kernel/base/emitter.js";
import { attach } from "../src/kernel/context/context.js";
import { publish } from "./inbox-behaviour.js";
import { opened, own } from "./harness.js";

const redis = useRedis(vitest);
const requests = new AsyncLocalStorage<string>();
const request = (): string | undefined => requests.getStore();

describe("async context", () => {
  it("of a listener is that of its registration, for events and for signals", () => {
    class Ticker extends TypedEmitter<{ readonly tick: readonly [] }> {
      tick = (): void => this.emit("tick");
    }
    const ticker = new Ticker();
    const seen: unknown[] = [];
    const listener = (): void => void seen.push(request());
    requests.run("a", () => ticker.on("tick", listener));
    requests.run("b", () => ticker.once("tick", listener));
    requests.run("c", ticker.tick);
    ticker.off("tick", listener);
    requests.run("c", ticker.tick);
    const controller = requests.run("d", () => new OwnAbortController());
    controller.signal.addEventListener("abort", listener);
    requests.run("c", () => controller.abort());
    expect(seen).toEqual(["a", "b", "d"]);
    expect(controller.signal.aborted).toBe(true);
  });

  it("of the first caller is not kept by what all share: the inbox and the timer of all deadlines", async () => {
    const client = await own(redis);
    const context = requests.run("first", () => attach(client, { prefix: redis.prefix }));
    await requests.run("first", () => opened(context.inbox, 10_000));
    const heard = new Promise((resolve) => context.inbox.expect("id", () => resolve(request())));
    await publish(redis, context.inbox, "id\thello");
    expect(await heard).toBeUndefined();
    context.detach();
    const late = new Promise((resolve) =>
      requests.run("first", () => atDeadline(new Deadline(performance.now() + 5), () => resolve(request()))),
    );
    expect(await late).toBeUndefined();
  });
});
