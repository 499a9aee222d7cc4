import { once } from "node:events";
import { request } from "node:http";
import { createQueue } from "@kit/queue";
import { eventually, startRedis, type RedisServer } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { kit, programBeside, spawnKit } from "./harness.js";

interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

/** `fetch` sets the header Host itself. */
const ask = async (url: string, headers: Readonly<Record<string, string>> = {}, form?: string): Promise<Reply> => {
  const asked = request(url, {
    headers: { ...headers, ...(form !== undefined && { "content-type": "application/x-www-form-urlencoded" }) },
    method: form === undefined ? "GET" : "POST",
    agent: false,
  });
  asked.end(form);
  const [response] = (await once(asked, "response")) as [import("node:http").IncomingMessage];
  let body = "";
  for await (const chunk of response) body += String(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, body };
};

describe("kit board", () => {
  const program = programBeside("queue", "board");
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  /** Starts a board, and resolves with the address that it prints. */
  const start = async (...args: string[]) => {
    const child = spawnKit(["board", "--url", server.url, ...args], { program });
    onTestFinished(() => void child.kill("SIGKILL"));
    let printed = "";
    let logged = "";
    child.stdout?.on("data", (chunk) => (printed += String(chunk)));
    child.stderr?.on("data", (chunk) => (logged += String(chunk)));
    const address = await eventually(
      () => {
        const [found] = /http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{32}/.exec(printed) ?? [];
        if (found === undefined) throw new Error(`It printed only: ${printed}${logged}`);
        return found;
      },
      { timeoutMs: 30_000 },
    );
    const { origin } = new URL(address);
    const enter = async (): Promise<Readonly<Record<string, string>>> => {
      const { headers } = await ask(address);
      return { cookie: String(headers["set-cookie"]).split(";", 1)[0] ?? "" };
    };
    return { child, address, origin, enter, logged: () => logged };
  };

  it("lets in one browser by the printed address, once, and ends with Ctrl-C", async () => {
    const { child, address, origin } = await start();
    expect((await ask(`${origin}/`)).status).toBe(403);
    for (const wrong of ["x", "%C3%A9"]) expect((await ask(`${origin}/?token=${wrong.repeat(32)}`)).status).toBe(403);
    const first = await ask(address);
    expect([first.status, first.headers["location"]]).toEqual([303, "/"]);
    const [cookie = ""] = first.headers["set-cookie"] as readonly string[];
    expect(cookie).toMatch(/; HttpOnly; SameSite=Strict; Path=\/$/);
    expect((await ask(address)).status).toBe(403);
    const page = await ask(`${origin}/`, { cookie: cookie.split(";", 1)[0] ?? "" });
    expect([page.status, page.body.includes("Overview")]).toEqual([200, true]);
    expect(page.body).not.toContain("token");
    child.kill("SIGINT");
    expect(await once(child, "exit")).toEqual([130, null]);
  });

  it("answers no other name than this machine's", async () => {
    const { origin, enter } = await start();
    const headers = await enter();
    const port = new URL(origin).port;
    for (const host of ["evil.test", `evil.test:${port}`, "127.0.0.1", `127.0.0.1:1`, `127.0.0.1.evil.test:${port}`])
      expect([host, (await ask(`${origin}/`, { ...headers, host })).status]).toEqual([host, 421]);
    expect((await ask(`${origin}/`, { ...headers, host: `localhost:${port}` })).status).toBe(200);
  });

  it("is read-only unless you pass --actions, and then logs who did what", async () => {
    const queue = createQueue(server.client(), "mail");
    onTestFinished(() => queue.close());
    await queue.add("hello", {});
    const path = "/?thing=queue&name=mail&do=queue+pause";
    const own = { "sec-fetch-site": "same-origin" };
    const readonly = await start();
    expect((await ask(readonly.origin + path, { ...own, ...(await readonly.enter()) }, "")).status).toBe(403);
    const acting = await start("--actions");
    const cookie = await acting.enter();
    expect((await ask(acting.origin + path, { ...cookie, "sec-fetch-site": "cross-site" }, "")).status).toBe(403);
    expect((await ask(acting.origin + path, { ...own, ...cookie }, "")).status).toBe(200);
    await eventually(() => expect(acting.logged()).toMatch(/: queue pause mail: done/));
  });

  it("names the package that is missing, a port in use, and a wrong port", async () => {
    expect(await kit(["board", "--url", server.url], { program: programBeside("queue") })).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("npm install @kit/board") as string,
    });
    const { origin } = await start();
    const { port } = new URL(origin);
    expect(await kit(["board", "--url", server.url, "--port", port], { program })).toMatchObject({
      code: 64,
      stderr: expect.stringContaining(`Port ${port} is in use`) as string,
    });
    expect((await kit(["board", "--port", "70000"], { program })).code).toBe(64);
  });

  it("prints the address as JSON", async () => {
    const child = spawnKit(["board", "--url", server.url, "--json"], { program });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [chunk] = (await once(child.stdout!, "data")) as [Buffer];
    expect(JSON.parse(String(chunk))).toEqual({ version: 1, address: expect.stringMatching(/^http:/) as string });
  });
});
