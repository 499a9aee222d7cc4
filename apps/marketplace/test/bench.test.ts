import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const program = fileURLToPath(new URL("../node_modules/@tooling/bench/dist/main.js", import.meta.url));

interface Entry {
  readonly case: string;
  readonly kit: object;
  readonly peers: Readonly<Record<string, object>>;
}

it("sells every item once, by every way that the benchmarks compare", async () => {
  const args = [program, "marketplace", "--json", "--rounds", "1", "--scale", "0.1"];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const { cases } = JSON.parse(stdout) as { readonly cases: readonly Entry[] };
  expect(cases.map((entry) => entry.case)).toEqual(
    ["WATCH", "market lock", "item lock"].flatMap((way) => [way, `${way} retries per sale`, `${way} wait p99`]),
  );
  for (const { case: name, kit, peers } of cases)
    for (const [who, figure] of Object.entries({ kit, ...peers }))
      expect(figure, `${name} ${who}`).toHaveProperty("median");
});
