import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { BoardAction } from "../src/index.js";
import { fill, permanentKeys, type Seen, thing, visit } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

const hold = async (name: string): Promise<void> => {
  const lock = createLock(redis.client, { prefix: redis.prefix });
  redis.defer(() => lock.close({ timeoutMs: 0 }));
  await lock.acquire(name);
};
const release = thing("lock", ["item:42"], ["do", "lock release"]);
const isHeld = async (): Promise<boolean> =>
  (await redis.client.exists(`${redis.prefix}:lock:{item%3A42}:lease`)) === 1;

describe("who may do what", () => {
  it("is read-only without authorize: no button, no dry run, no action", async () => {
    await hold("item:42");
    const visitor = visit(redis, { authorize: undefined });
    const page = await visitor.get(thing("lock", ["item:42"]));
    expect(page.status).toBe(200);
    expect(page.html).not.toContain("do=");
    expect((await visitor.get(release)).status).toBe(403);
    expect((await visitor.post(release)).status).toBe(403);
    expect(await isHeld()).toBe(true);
  });

  it("asks authorize about each page and each action, with the request and the thing", async () => {
    await hold("item:42");
    const asked: string[] = [];
    const visitor = visit(redis, {
      authorize: (request, action, { kind, names }) => {
        asked.push(`${request.headers.get("x-user") ?? ""} ${action} ${kind} ${names.join()}`);
        return "ann";
      },
    });
    await visitor.get("", { "x-user": "ann" });
    await visitor.get("list=locks", { "x-user": "ann" });
    await visitor.get("page=health", { "x-user": "ann" });
    await visitor.post(release, [], { "x-user": "ann" });
    expect(asked).toEqual(["ann view board ", "ann view lock ", "ann view health ", "ann lock release lock item:42"]);
  });

  it.each([undefined, null, false, "", 7, true])("refuses everything when authorize returns %j", async (answer) => {
    await hold("item:42");
    const visitor = visit(redis, { authorize: () => answer as never });
    for (const query of ["", "list=locks", "page=health", thing("lock", ["item:42"]), release])
      expect([query, (await visitor.get(query)).status]).toEqual([query, 403]);
    expect((await visitor.post(release)).status).toBe(403);
    expect(await isHeld()).toBe(true);
  });

  it("changes nothing when authorize rejects", async () => {
    await hold("item:42");
    const visitor = visit(redis, { authorize: () => Promise.reject(new Error("session store away")) });
    expect((await visitor.post(release)).status).toBe(500);
    expect(await isHeld()).toBe(true);
  });

  it("shows only the buttons of actions that the person may run", async () => {
    await fill(redis);
    const visitor = visit(redis, {
      authorize: (_request, action) => (/^(view|queue pause)$/.test(action) ? "ann" : null),
    });
    const { html } = await visitor.get(thing("queue", ["mail"]));
    expect([...html.matchAll(/do=([\w+]+)/g)].map(([, action]) => action)).toEqual(["queue+pause"]);
  });

  it("names the person to onAction, with what was done, and lists it", async () => {
    await hold("item:42");
    const log: BoardAction[] = [];
    const visitor = visit(redis, { onAction: (action) => void log.push(action) });
    expect((await visitor.post(release)).status).toBe(200);
    expect(await isHeld()).toBe(false);
    expect(log).toEqual([
      {
        person: "ann",
        action: "lock release",
        thing: { kind: "lock", names: ["item:42"] },
        options: {},
        outcome: "done",
        text: expect.stringContaining("released: item:42") as string,
      },
    ]);
    expect((await visitor.get("page=health")).text).toMatch(/ann lock release item:42 done/);
  });

  it("gives onAction no data of a job", async () => {
    const { ids } = await fill(redis);
    const log: BoardAction[] = [];
    const visitor = visit(redis, { onAction: (action) => void log.push(action) });
    await visitor.post(thing("job", ["mail", ids.waiting], ["do", "queue edit"]), [["o.data", '{"card":"4711"}']]);
    expect(log).toMatchObject([{ action: "queue edit", options: { data: "…" }, outcome: "done" }]);
    expect(JSON.stringify(log)).not.toContain("4711");
  });

  it("tells the person when the action could not be logged", async () => {
    await hold("item:42");
    const onAction = (): Promise<void> => Promise.reject(new Error("disk full"));
    const { status, text } = await visit(redis, { onAction }).post(release);
    expect(status).toBe(200);
    expect(text).toContain("your audit log did not accept it");
  });
});

describe("forms of other pages", () => {
  it.each([
    ["cross-site", { "sec-fetch-site": "cross-site" }],
    ["same-site", { "sec-fetch-site": "same-site" }],
    ["typed by a person", { "sec-fetch-site": "none" }],
    ["cross-site, that claims the origin", { "sec-fetch-site": "cross-site", origin: "http://board.test" }],
    ["of an old browser on another origin", { "sec-fetch-site": undefined, origin: "http://evil.test" }],
    ["without an origin", { "sec-fetch-site": undefined }],
    ["with a null origin", { "sec-fetch-site": undefined, origin: "null" }],
  ])("refuses a form that is %s", async (_name, headers) => {
    await hold("item:42");
    const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== undefined));
    const { board } = visit(redis);
    const response = await board(
      new Request(`http://board.test/?${release}`, {
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded", ...(given as Record<string, string>) },
        body: "",
      }),
    );
    expect(response.status).toBe(403);
    expect(await isHeld()).toBe(true);
  });

  it("accepts a form of an old browser on the same host, also behind a proxy that ends TLS", async () => {
    await hold("item:42");
    const { board } = visit(redis);
    const headers = {
      "content-type": "application/x-www-form-urlencoded",
      origin: "https://ops.example.com",
      host: "ops.example.com",
    };
    expect((await board(new Request(`http://10.0.0.7:3000/?${release}`, { method: "POST", headers }))).status).toBe(
      200,
    );
    expect(await isHeld()).toBe(false);
  });

  it.each([
    ["text/plain", "x", 413],
    ["multipart/form-data; boundary=x", "x", 413],
    ["application/x-www-form-urlencoded", "o.run=on&a=".padEnd(70_000, "x"), 413],
  ])("refuses a body that is no small form: %s", async (type, body, status) => {
    await hold("item:42");
    const { board } = visit(redis);
    const headers = { "content-type": type, "sec-fetch-site": "same-origin" };
    expect((await board(new Request(`http://b/?${release}`, { method: "POST", headers, body }))).status).toBe(status);
    expect(await isHeld()).toBe(true);
  });

  it("changes nothing by GET, whatever the address says", async () => {
    await hold("item:42");
    const visitor = visit(redis);
    for (const more of ["", "&o.run=on", "&o.run=true", "&run=on"])
      expect((await visitor.get(release + more)).status).toBe(200);
    expect(await isHeld()).toBe(true);
  });
});

describe("hostile names and data", () => {
  const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>'\u202e\u0007`;
  /** Text that only a page's own elements could have. */
  const isClean = (page: Seen): void => {
    // A field has the name as it is, so that its form can send it.
    const html = page.html.replace(/ value="[^"]*"/g, "");
    expect(html).not.toContain("<script>alert");
    expect(html).not.toContain("<img src=x");
    expect(html).not.toContain("\u202e");
    expect(html).not.toContain("\u0007");
  };

  it("escapes names, data, errors and options on every page", async () => {
    const queue = createQueue(redis.client, evil, { prefix: redis.prefix });
    redis.defer(() => queue.close());
    const id = await queue.add("job", { [evil]: evil }, { id: `id${evil.replace("\u0007", "")}` });
    await hold(evil);
    const visitor = visit(redis, { title: `t${evil}`.slice(0, 60), jobData: (value) => value });
    const queries = [
      "",
      "list=queues",
      `list=locks&q=${encodeURIComponent(evil)}`,
      "page=health&run=1",
      thing("queue", [evil]),
      thing("queue", [evil], ["job", evil], ["state", evil]),
      thing("job", [evil, id]),
      thing("job", [evil, evil]),
      thing("lock", [evil], ["keys", "1"]),
      thing("lock", [evil], ["do", "lock release"]),
      thing("queue", [evil], ["do", "queue clean"], ["o.state", evil]),
      thing(evil, [evil]),
    ];
    for (const query of queries) {
      const page = await visitor.get(query);
      expect([query, page.status < 500]).toEqual([query, true]);
      isClean(page);
    }
    isClean(await visitor.post(thing("queue", [evil], ["do", "queue pause"]), [["o.name", evil]]));
    isClean(await visitor.get("page=health"));
  });

  it("sends a policy that lets nothing else run, and that no page may frame", async () => {
    for (const query of ["", "asset=htmx.js", "thing=nothing"]) {
      const { headers } = await visit(redis).get(query);
      const policy = headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/unsafe|\*/);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("referrer-policy")).toBe("same-origin");
    }
  });

  it("has no inline script, style or handler", async () => {
    await fill(redis);
    for (const query of ["", "page=health", thing("queue", ["mail"])]) {
      const { html } = await visit(redis).get(query);
      expect(html).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|hx-on|javascript:/i);
    }
  });
});

describe("data of jobs", () => {
  it("is hidden unless an option shows it", async () => {
    const { ids } = await fill(redis);
    const { text } = await visit(redis).get(thing("job", ["mail", ids.active]));
    expect(text).not.toContain("s3cret");
    expect(text).toContain("Its data is hidden");
  });

  it("is shown as the option returns it", async () => {
    const { ids } = await fill(redis);
    const asked: unknown[] = [];
    const visitor = visit(redis, {
      jobData: (value, job) => {
        asked.push(job);
        return { ...(value as object), secret: "removed" };
      },
    });
    const { text } = await visitor.get(thing("job", ["mail", ids.active]));
    expect(text).not.toContain("s3cret");
    expect(text).toContain('"secret": "removed"');
    expect(asked).toEqual([{ queue: "mail", id: ids.active, name: "slow", part: "data" }]);
  });

  it("is hidden for those that the option returns undefined for", async () => {
    const { ids } = await fill(redis);
    const { text } = await visit(redis, { jobData: () => undefined }).get(thing("job", ["mail", ids.active]));
    expect(text).not.toContain("s3cret");
  });
});
