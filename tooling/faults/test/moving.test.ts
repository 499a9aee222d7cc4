import { describe, expect, it, vi } from "vitest";
import { movingFaults } from "../src/faults/index.js";
import { workload } from "../src/workloads/geoip/index.js";

vi.hoisted(() => (process.env["KIT_FAULTS_PATIENCE"] = "5"));

/** The workload whose workers are the lightest: here the faults are looked at, and not the package. */
const effectsIn = async (setting: "address" | "resharded"): Promise<Record<string, number>> => {
  const faults = movingFaults.filter((fault) => fault.setting === setting);
  const report = await workload.run({ seed: 3, setting, faults, isOver: (effective) => effective >= 2, calmMs: 300 });
  expect(report.violations.filter(({ what }) => what.startsWith("work did not go on"))).toEqual([]);
  return Object.fromEntries(report.effects);
};

describe("The faults that move keys to other servers take effect", () => {
  it("behind one address, there and back", async () => {
    const effects = await effectsIn("address");
    expect(Object.keys(effects)).toEqual(["failover behind one address", "failover behind one address, cut off"]);
    expect(Math.min(...Object.values(effects))).toBeGreaterThan(0);
  });

  it("on a Cluster, whose slots and nodes move", async () => {
    const { "slot moved while in use": slots = 0, "node removed and reset": nodes = 0 } = await effectsIn("resharded");
    expect(Math.min(slots, nodes)).toBeGreaterThan(0);
  });
});
