import type { TestHook, TestHooks } from "../src/index.js";

/** A test runner that runs on request, so that a test can look at what the hooks do. */
export interface FakeRunner {
  readonly hooks: TestHooks;
  before(): Promise<void>;
  after(): Promise<void>;
  /** Runs a body between beforeEach and afterEach; returns the message of what afterEach throws, if it does. */
  run(body: () => unknown): Promise<string | undefined>;
  /** The same for a body that leaks: that the checks wait long before they say so would only cost time. */
  leak(body: () => unknown): Promise<string | undefined>;
}

export function fakeRunner(): FakeRunner {
  const recorded = new Map<string, () => Promise<void>>();
  const record =
    (name: string): TestHook =>
    (run) =>
      recorded.set(name, run);
  const call = async (name: string) => recorded.get(name)?.();
  const run = async (body: () => unknown): Promise<string | undefined> => {
    await call("beforeEach");
    try {
      await body();
    } catch (error) {
      await call("afterEach").catch(() => {});
      throw error;
    }
    return call("afterEach").then(
      () => undefined,
      (error: Error) => error.message,
    );
  };
  return {
    hooks: {
      beforeAll: record("beforeAll"),
      afterAll: record("afterAll"),
      beforeEach: record("beforeEach"),
      afterEach: record("afterEach"),
    },
    before: () => call("beforeAll"),
    after: () => call("afterAll"),
    run,
    leak: async (body) => {
      const usual = process.env["KIT_TESTING_PATIENCE"];
      process.env["KIT_TESTING_PATIENCE"] = "1";
      return run(body).finally(() => (process.env["KIT_TESTING_PATIENCE"] = usual));
    },
  };
}
