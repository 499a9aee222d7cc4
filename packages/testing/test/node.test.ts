import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { findServer } from "../src/binary.js";
import { startRedis } from "../src/index.js";
import { PortTakenError, ServerNode } from "../src/node.js";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "kit-node-"));
});
afterEach(async () => {
  await rm(dir, { recursive: true, force: true });
});

describe("ServerNode", () => {
  it("does not take a stranger on its port for itself", async () => {
    await using stranger = await startRedis();
    const { port = 0 } = stranger.nodes[0] ?? {};
    const { path } = await findServer();
    const node = new ServerNode({ binary: path, port, dir, args: ["--save", ""], env: {}, password: undefined });
    try {
      await expect(node.launch()).rejects.toBeInstanceOf(PortTakenError);
      expect(node.state).toBe("stopped");
    } finally {
      await node.kill();
      node.close();
    }
    expect(await stranger.call("PING")).toBe("PONG");
  });

  it("does not wait for a stranger on its port that says nothing", async () => {
    const stranger = createServer();
    await new Promise<void>((resolve) => void stranger.listen(0, "127.0.0.1", resolve));
    const { port } = stranger.address() as AddressInfo;
    const { path } = await findServer();
    const node = new ServerNode({ binary: path, port, dir, args: ["--save", ""], env: {}, password: undefined });
    try {
      await expect(node.launch()).rejects.toBeInstanceOf(PortTakenError);
    } finally {
      await node.kill();
      node.close();
      stranger.close();
    }
  });

  it("waits at a restart until a stranger has left its port", async () => {
    const stranger = await startRedis();
    const { port = 0 } = stranger.nodes[0] ?? {};
    const { path } = await findServer();
    const node = new ServerNode({ binary: path, port, dir, args: ["--save", ""], env: {}, password: undefined });
    try {
      const started = node.start();
      await stranger.stop();
      await started;
      expect(await node.call("CONFIG", "GET", "dir")).toEqual(["dir", dir]);
    } finally {
      await node.kill();
      node.close();
    }
  });
});
