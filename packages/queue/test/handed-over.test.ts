import { useRedis } from "@kit/testing";
import { aborted } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, permanentKeys } from "./harness.js";

const fixture = fixtureOf(useRedis(vitest, { permanentKeys }));
const { make, work } = fixture;
const errorOf = (fields: object): Error => Object.assign(new Error("stopped"), fields);

/** The errors of libraries whose signal aborts, by how they are made. */
const shapes: Readonly<Record<string, (reason: unknown) => unknown>> = {
  reason: (reason) => reason,
  axios: () => errorOf({ name: "CanceledError", code: "ERR_CANCELED" }),
  got: () => errorOf({ name: "AbortError", code: "ERR_ABORTED" }),
  DOMException: () => new DOMException("stopped", "AbortError"),
  "code of Node": () => errorOf({ code: "ABORT_ERR" }),
  "cause two deep": (cause) => new Error("page", { cause: new Error("request", { cause }) }),
  AggregateError: (reason) => new AggregateError([new Error("other"), new Error("request", { cause: reason })]),
  "AggregateError as cause": () => new Error("page", { cause: new AggregateError([errorOf({ name: "AbortError" })]) }),
};

describe("a handler that reports an abort", () => {
  it("hands its job over once its worker closes, whatever the library; another failure then is an attempt", async () => {
    const queue = make();
    const cycle = errorOf({});
    cycle.cause = cycle;
    const failures: readonly unknown[] = [new Error("broken"), cycle, "AbortError", errorOf({ name: "TimeoutError" })];
    const worker = work(
      queue,
      async ({ data, closing }) => {
        const reason = await aborted(closing);
        throw typeof data === "number" ? failures[data] : shapes[data as string]!(reason);
      },
      { concurrency: 100 },
    );
    const datas = [...Object.keys(shapes), ...failures.keys()];
    await queue.addAll(datas.map((data) => ({ name: "job", data })));
    await vitest.vi.waitUntil(() => worker.running === datas.length, 10_000);
    await worker.close();
    const letters = await queue.deadLetters();
    expect(letters.map(({ data }) => data).toSorted((a, b) => Number(a) - Number(b))).toEqual([...failures.keys()]);
    expect(await fixture.counts()).toMatchObject({ waiting: Object.keys(shapes).length, failures: failures.length });
  });

  it("fails while its worker continues", async () => {
    const queue = make();
    work(queue, () => {
      throw errorOf({ name: "AbortError" });
    });
    await queue.add("job", 1);
    await fixture.untilEmpty();
    expect(await queue.deadLetters()).toMatchObject([{ attempts: 1, error: { name: "AbortError" } }]);
  });
});
