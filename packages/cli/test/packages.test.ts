import { describe, expect, it } from "vitest";
import { knownPackages } from "../src/packages.js";
import { doctor, kit, programBeside, started } from "./harness.js";

const others = knownPackages.filter((name) => name !== "lock" && name !== "semaphore");
const flat = (text: string): string => text.replace(/\s+/g, " ");

describe("the packages next to the command line", () => {
  it("are listed by what can be inspected of them, and so are those that are not installed", async () => {
    const { code, stdout, stderr } = await kit(["inspect"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^lock NAME +@kit\/lock +a lock: holder, lease, fencing token and waiters$/m);
    expect(stdout).toMatch(/^semaphore NAME +@kit\/semaphore /m);
    expect(flat(stdout)).toContain(`Not installed, or too old: ${others.map((name) => `@kit/${name}`).join(", ")} `);
  });

  it("may be none", async () => {
    const program = programBeside();
    const { code, stdout } = await kit(["inspect"], { program });
    expect(code).toBe(0);
    expect(flat(stdout)).toBe(`Not installed, or too old: ${knownPackages.map((name) => `@kit/${name}`).join(", ")} `);
    const server = await started();
    const report = await doctor(server.url, [], { program });
    expect(report.said("permissions")).toBe("this user has all permissions for @kit/core");
  });

  it("are named where one is missing that a command needs", async () => {
    const program = programBeside("lock");
    const missing = await kit(["semaphore", "anything"], { program });
    expect(missing).toEqual({
      code: 64,
      stdout: "",
      stderr: "kit: kit semaphore needs @kit/semaphore. Run: npm install @kit/semaphore\n",
    });
    const unknown = await kit(["inspect", "no-such"], { program });
    expect(unknown.stderr).toBe('kit: Cannot inspect "no-such". Choose one of: lock\n');
    expect(unknown.code).toBe(64);
    expect(await kit(["inspect", "no-such", "name", "--keys", "--url", "redis://127.0.0.1:1"], { program })).toEqual(
      unknown,
    );
    const option = await kit(["inspect", "--json"], { program });
    expect(option.stderr).toMatch(/^error: unknown option '--json'/);
    const list = await kit(["list", "no-such", "--json"], { program });
    expect(list.stderr).toBe('kit: Cannot list "no-such". Choose one of: locks\n');
    expect(list.code).toBe(64);
  });

  it("have their checks listed by kit help, after the commands", async () => {
    const { stdout } = await kit(["help"]);
    expect(flat(stdout)).toMatch(/Commands: .* Doctor checks: reachability, round-trip, .*, duplicate-copies $/);
  });

  it("alone say which of their keys may stay; nothing is said of keys of the others", async () => {
    const server = await started();
    const redis = server.client();
    await redis.set(`kit:${others[0]!}:{a}:index`, "1");
    expect((await doctor(server.url)).of("keys-without-expiry").severity).toBe("ok");
    await redis.set("kit:semaphore:{a}:permits", "1");
    const { said } = await doctor(server.url);
    expect(said("keys-without-expiry")).toBe(
      "keys without an expiry that no package keeps permanently: kit:semaphore:{a}:permits",
    );
  });
});
