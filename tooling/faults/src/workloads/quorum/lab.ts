import { pause } from "@kit/core/toolkit";
import { FaultProxy, type RedisNode, type RedisServer, startRedis } from "@kit/testing";
import { Lab, prefix } from "../../lab/lab.js";
import type { Span } from "../../records.js";
import type { LogRecord, QuorumRun } from "./history.js";

/** A server of the quorum, and the way of the workers to it. */
interface Member {
  readonly node: RedisNode;
  readonly proxy: FaultProxy;
}

/** Three servers that share nothing, the workers that contend for locks on them, and the injections. */
export class QuorumLab extends Lab<LogRecord> {
  override readonly leaseMs: number = 500;
  readonly withoutMajority: Span[] = [];
  readonly #servers: RedisServer[] = [];
  readonly #beside: Member[] = [];

  /** The two servers besides the one that the common faults meet. They have no files. */
  get beside(): readonly Member[] {
    return this.#beside;
  }

  get members(): readonly Member[] {
    return [{ node: this.node, proxy: this.proxy }, ...this.#beside];
  }

  protected override settings(): object {
    return {
      urls: [this.url, ...this.#beside.map(({ proxy }) => proxy.url)],
      names: ["red", "green"],
      nodeTimeoutMs: 100,
      restartGuardMs: 700,
    };
  }

  override async begin(workers: number): Promise<void> {
    await Promise.all([this.#join(), this.#join()]);
    await super.begin(workers);
  }

  async #join(): Promise<void> {
    const server = await startRedis();
    this.#servers.push(server);
    const [node] = server.nodes;
    if (node) this.#beside.push({ node, proxy: await FaultProxy.start({ port: node.port }) });
  }

  async end(): Promise<QuorumRun> {
    const facts = await this.facts();
    // Those of killed workers end by themselves.
    await pause(this.leaseMs + 100);
    const keys = await Promise.all(this.members.map(({ node }) => node.call("KEYS", `${prefix}:*`)));
    return { ...facts, withoutMajority: this.withoutMajority, leftovers: (keys as string[][]).flat() };
  }

  override async stop(): Promise<void> {
    try {
      await super.stop();
    } finally {
      await Promise.all(this.#beside.map(({ proxy }) => proxy.close()));
      await Promise.all(this.#servers.map((server) => server.stop()));
    }
  }
}
