import { readFileSync } from "node:fs";
import { createQueue } from "@kit/queue";
import { eventually, startRedis } from "@kit/testing";
import { freePort, Program } from "@tooling/vitest/helpers";
import { expect, it, onTestFinished } from "vitest";

const program = new URL("programs/bull-board.mjs", import.meta.url);

it("the page has a program that serves a bull-board with queues of kit", async () => {
  const page = readFileSync(new URL("../docs/bull-board.md", import.meta.url), "utf8");
  expect(page).toContain(readFileSync(program, "utf8").trim());
  const server = await startRedis();
  onTestFinished(() => server.stop());
  const queue = createQueue(server.client(), "video");
  onTestFinished(() => queue.close());
  await queue.add("encode", { from: "a.mov" });
  const port = String(await freePort());
  const running = new Program(program, { REDIS_URL: server.url, PORT: port });
  onTestFinished(async () => void (await running.end("SIGKILL")));
  const get = (path: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: "close" } });
  const { queues } = (await eventually(async () => (await get("/api/queues")).json(), { timeoutMs: 30_000 })) as {
    readonly queues: readonly object[];
  };
  expect(queues).toMatchObject([
    { name: "mail", counts: { waiting: 0 } },
    { name: "video", counts: { waiting: 1 } },
  ]);
  expect(await (await get("/")).text()).toContain("<title>");
  expect(running.printed).toBe("");
});
