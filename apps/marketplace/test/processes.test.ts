// The processes beside the web server die and come back.
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { promisify } from "node:util";
import { eventually } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { field } from "../src/common/http-client.js";
import { redisFacts } from "../src/behind/inspect-line.js";
import { type RunningShop, startShop, Visitor } from "./shop.js";

const json = "application/json";
const slow = { timeoutMs: 60_000, intervalMs: 200 };

let shop: RunningShop;
beforeAll(async () => {
  shop = await startShop("--no-visitors");
  // The queue exists once its first job was added.
  await shop.isComplete();
});
afterAll(async () => {
  const { code } = await shop.stop();
  if (code !== 0) throw new Error(`The shop ended with ${code}`);
});

describe("The address of its Redis", () => {
  it("is said in the terminal and on the ops page, with a command that works as copied", async () => {
    const command = /another terminal: (.*)\n/.exec(shop.said.stderr)?.[1] ?? "false";
    const address = / Redis: (.*)\n/.exec(shop.said.stderr)?.[1] ?? "";
    const { stdout } = await promisify(execFile)("sh", ["-c", command], { cwd: tmpdir() });
    expect(stdout).toMatch(/^queue\s+orders$/m);
    const { body } = await new Visitor(shop.origin).get("/ops");
    expect(body).toContain(`<code>${address}</code>`);
    expect(body).toContain(command);
  });

  it("is shown without its password, and then without a command", () => {
    const secret = redisFacts("rediss://me:secret@shop.example:6380/1?x=1", "kit");
    expect(secret.address).toBe("rediss://shop.example:6380/1?x=1");
    expect(secret.inspect("queue", "orders")).toBe(null);
    const { inspect } = redisFacts("redis+cluster://127.0.0.1:7000,127.0.0.1:7001?a=1&b=$(c)", "other");
    expect(inspect("queue", "orders")).toMatch(
      / --url 'redis\+cluster:\/\/127\.0\.0\.1:7000,127\.0\.0\.1:7001\?a=1&b=\$\(c\)' --prefix other$/,
    );
  });
});

describe("A process that dies", () => {
  /** The process of that name, according to the ops page. */
  const pidOf = async (name: string): Promise<number> => {
    const { body } = await new Visitor(shop.origin).get("/ops");
    return Number(new RegExp(`<b>${name}</b>\\s*<span class="fact"\\s*>pid (\\d+), running`).exec(body)?.[1]);
  };
  const kill = async (name: string): Promise<void> => {
    const pid = await pidOf(name);
    expect(pid).toBeGreaterThan(0);
    process.kill(pid, "SIGKILL");
    await eventually(async () => {
      const next = await pidOf(name);
      expect(next).toBeGreaterThan(0);
      expect(next).not.toBe(pid);
    }, slow);
  };

  it("partners: payments and mails reach the one that was started in its place", async () => {
    await kill("partners");
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u437");
    const { body } = await visitor.get("/?category=toys");
    const path = /href="(\/item\/\w+)"/.exec(body.slice(body.indexOf('class="cards"')))?.[1] ?? "";
    const page = await visitor.get(path);
    const form = Object.fromEntries(["request", "price", "revision"].map((name) => [name, field(page.body, name)]));
    const bought = await visitor.post(`${path}/buy`, { ...form, csrf, way: "lock" }, json);
    const { order } = JSON.parse(bought.body) as { order: string };
    await eventually(async () => {
      expect((await visitor.get("/mail")).body).toContain(`Receipt for order ${order}`);
      expect((await visitor.get(`/order/${order}`)).body).toMatch(/charge<\/td>\s*<td>\s*done/);
    }, slow);
  });

  it("shipper: a request does not wait for its completion", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u437");
    const pid = await pidOf("shipper");
    process.kill(pid, "SIGSTOP");
    const asked = visitor.post("/logs/ship", { csrf });
    // Its question is on the way once a later request was answered.
    await visitor.get("/about");
    process.kill(pid, "SIGKILL");
    expect((await asked).status).toBe(409);
  });

  it("shipper: the number of waiting files is bounded", async () => {
    await eventually(async () => expect(await pidOf("shipper")).toBeGreaterThan(0), slow);
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u437");
    const replies = await Promise.all(Array.from({ length: 12 }, () => visitor.post("/logs/ship", { csrf })));
    const statuses = replies.map(({ status }) => status);
    expect(statuses).toContain(303);
    expect(statuses).toContain(429);
    expect(new Set(statuses).size).toBe(2);
  });

  it("sellers: their program answers afterwards, though a visitor plays one of them", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u2");
    expect((await visitor.post("/faults", { csrf, fault: "sellers" })).status).toBe(303);
    const state = async (): Promise<string> =>
      /<div id="fault-sellers">(.*?)<\/div>/s.exec((await visitor.get("/faults")).body)?.[1] ?? "";
    await eventually(async () => expect(await state()).toMatch(/class="mark/), slow);
    expect(await state()).toContain("Three questions waited while the sellers were down.");
  });

  it("wire: every process finds Redis again behind the one that was started in its place", async () => {
    const { body } = await new Visitor(shop.origin).get("/ops");
    const pid = Number(/<b>wire<\/b>\s*<span class="fact"\s*>pid (\d+)/.exec(body)?.[1]);
    process.kill(pid, "SIGKILL");
    await eventually(async () => {
      const page = await new Visitor(shop.origin).get("/ops");
      expect(page.status).toBe(200);
      expect(page.body).not.toContain(`pid ${pid},`);
    }, slow);
  });
});
