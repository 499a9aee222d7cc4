import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { Watch } from "../src/signals.js";

it("is late without a warning when its time limit has already passed", async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  const never = new Promise<void>(() => undefined);
  expect(await new Watch().of(never, -67.2)).toBe("late");
  await nextTurn();
  expect(warnings).toEqual([]);
});
