import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** Faults of one direction. You can set and change each of them at any time; it applies to bytes that arrive afterward. */
export interface ProxyFaults {
  /**
   * Half-open: nothing is forwarded, not even a close. A connection that lost bytes stays silent
   * until `heal()` resets it, since the rest of its stream would make no sense.
   */
  hole: boolean;
  /** Delay of each chunk in milliseconds. The order is kept. */
  latencyMs: number;
  /** Adds a random delay of up to this many milliseconds, drawn from the seed. */
  jitterMs: number;
  /** Cuts each chunk into writes of up to this many bytes. 0 leaves it whole. */
  sliceBytes: number;
  /** Bytes per second and connection; 0 is unlimited. */
  bytesPerSecond: number;
  /** Loses this many further chunks, and resets the connection of each. Counts down. */
  cutNext: number;
  /**
   * Lets this many further bytes pass, over all connections together, and resets the connection of the next byte, perhaps in the
   * middle of a frame. Takes effect once, and is then undefined again.
   */
  cutAfterBytes: number | undefined;
}

/** Counts since the start, so that a run can prove that a fault took effect. */
export interface ProxyStats {
  /** Connections accepted and passed on. */
  readonly accepted: number;
  /** Bytes that arrived and were never delivered. */
  readonly droppedBytes: number;
  /** Chunks that latency, jitter, slices or a rate held up. */
  readonly slowedChunks: number;
  /** Connections that a fault or `resetAll()` reset. */
  readonly resets: number;
  /** Connections that were reset immediately because of `refuse`. */
  readonly refused: number;
}

/** The target of the proxy, its own port, and the seed of its jitter. */
export interface FaultProxyOptions {
  /** @default "127.0.0.1" */
  readonly host?: string;
  readonly port: number;
  /**
   * The port to listen on, such as an earlier proxy's port; 0 is any free port.
   *
   * @default 0
   */
  readonly listenPort?: number;
  /**
   * Seed of the jitter: equal seeds give equal delays.
   * @default 1
   */
  readonly seed?: number;
}

type Direction = "up" | "down";

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  /** Bytes were lost on it, so it must carry no more. */
  isTorn: boolean;
  /** A close was swallowed by a hole. */
  isHalfClosed: boolean;
}

const noFaults = (): ProxyFaults => ({
  hole: false,
  latencyMs: 0,
  jitterMs: 0,
  sliceBytes: 0,
  bytesPerSecond: 0,
  cutNext: 0,
  cutAfterBytes: undefined,
});

/**
 * A TCP proxy on loopback that fails on command: `up` has the faults from client to server, `down` the faults from server to
 * client. Without faults it adds about 0.02 ms to a round trip.
 *
 * It does not parse Redis' protocol. A Cluster client reaches a node through it only with ioredis' `natMap`.
 *
 * @example
 * await using proxy = await FaultProxy.start({ port: server.nodes[0].port });
 * const redis = new Redis(proxy.port);
 * proxy.down.cutNext = 1; // the next command is executed, its reply is lost
 */
export class FaultProxy implements AsyncDisposable {
  /**
   * Listens on a loopback port and forwards each connection to `host:port`.
   *
   * @throws {Error} `EADDRINUSE`: `listenPort` is taken.
   */
  static async start(options: FaultProxyOptions): Promise<FaultProxy> {
    const proxy = new FaultProxy(options);
    await new Promise<void>((resolve, reject) => {
      proxy.#listener.once("error", reject);
      proxy.#listener.listen(options.listenPort ?? 0, "127.0.0.1", resolve);
    });
    return proxy;
  }

  /** Faults on the way from the clients to the server. */
  readonly up: ProxyFaults = noFaults();
  /** Faults on the way from the server to the clients. */
  readonly down: ProxyFaults = noFaults();
  /** Whether new connections are reset immediately. */
  refuse: boolean = false;

  readonly #target: { host: string; port: number };
  readonly #random: () => number;
  readonly #links: Set<Link> = new Set();
  readonly #stats: { -readonly [K in keyof ProxyStats]: ProxyStats[K] } = {
    accepted: 0,
    droppedBytes: 0,
    slowedChunks: 0,
    resets: 0,
    refused: 0,
  };
  readonly #listener: Server;
  #closed: Promise<void> | undefined;

  private constructor({ host = "127.0.0.1", port, seed = 1 }: FaultProxyOptions) {
    this.#target = { host, port };
    this.#random = seededRandom(seed);
    // Paused until the server side is connected, so that faults apply to the first bytes as well.
    this.#listener = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) =>
      this.#accept(socket),
    );
  }

  /** The port to connect to, on 127.0.0.1. */
  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  /** `redis://127.0.0.1:<port>`. */
  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** The counts so far; the same object, kept up to date. */
  get stats(): ProxyStats {
    return this.#stats;
  }

  /** Sends new connections to another server, as a DNS name or a virtual IP does after a failover. Open connections stay. */
  redirect(port: number): void {
    this.#target.port = port;
  }

  /** Resets every open connection, both ways, as a firewall would. */
  resetAll(): void {
    for (const link of this.#links) this.#reset(link);
  }

  /** Ends all faults. Resets connections that lost bytes or a close in a hole. */
  heal(): void {
    Object.assign(this.up, noFaults());
    Object.assign(this.down, noFaults());
    this.refuse = false;
    for (const link of this.#links) if (link.isTorn || link.isHalfClosed) this.#reset(link);
  }

  /** Ends all connections and stops listening. Idempotent. */
  close(): Promise<void> {
    return (this.#closed ??= new Promise((resolve) => {
      this.#listener.close(() => resolve());
      for (const link of this.#links) this.#remove(link);
    }));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #accept(client: Socket): void {
    client.on("error", () => {});
    if (this.refuse) {
      this.#stats.refused += 1;
      resetNow(client);
      return;
    }
    this.#stats.accepted += 1;
    const server = connect({ ...this.#target, allowHalfOpen: true, noDelay: true });
    const link: Link = { client, server, isTorn: false, isHalfClosed: false };
    this.#links.add(link);
    server.on("error", () => {});
    this.#pass(link, "up", client, server);
    this.#pass(link, "down", server, client);
    server.once("connect", () => client.resume());
    // A socket that ended with an error, or both ways, ends the other one: unless a hole hides it.
    client.once("close", () => this.#onClose(link, this.up));
    server.once("close", () => this.#onClose(link, this.down));
  }

  #onClose(link: Link, faults: ProxyFaults): void {
    if (!this.#links.has(link)) return;
    if (faults.hole || link.isTorn) link.isHalfClosed = true;
    else this.#remove(link);
  }

  #pass(link: Link, direction: Direction, from: Socket, to: Socket): void {
    const faults = this[direction];
    // Delayed bytes go out in the order in which they came in; undefined means that nothing waits.
    let queue: Promise<void> | undefined;
    from.on("data", (chunk) => {
      const passing = this.#inject(link, faults, chunk);
      if (!passing) return;
      if (!queue && !isSlow(faults)) {
        deliver(from, to, passing);
        return;
      }
      this.#stats.slowedChunks += 1;
      const dueAt = performance.now() + faults.latencyMs + this.#random() * faults.jitterMs;
      const mine = (queue ?? Promise.resolve()).then(() => this.#deliverSlowly(link, faults, to, passing, dueAt));
      queue = mine;
      void mine.then(() => {
        if (queue === mine) queue = undefined;
      });
    });
    from.on("end", () => {
      void (queue ?? Promise.resolve()).then(() => {
        if (faults.hole || link.isTorn) link.isHalfClosed = true;
        else to.end();
      });
    });
  }

  /** Applies the faults that lose bytes; returns the bytes that may pass. */
  #inject(link: Link, faults: ProxyFaults, chunk: Buffer): Buffer | undefined {
    if (faults.hole || link.isTorn) {
      link.isTorn = true;
      this.#stats.droppedBytes += chunk.length;
      return undefined;
    }
    if (faults.cutNext > 0) {
      faults.cutNext -= 1;
      this.#stats.droppedBytes += chunk.length;
      this.#reset(link);
      return undefined;
    }
    if (faults.cutAfterBytes === undefined) return chunk;
    if (chunk.length <= faults.cutAfterBytes) {
      faults.cutAfterBytes -= chunk.length;
      return chunk;
    }
    const head = chunk.subarray(0, faults.cutAfterBytes);
    faults.cutAfterBytes = undefined;
    link.isTorn = true;
    this.#stats.droppedBytes += chunk.length - head.length;
    // The head must be sent before the reset, which discards bytes that are still being written. (A receiver that reads both at
    // once may see the reset as an orderly end; its frame is torn in any case.)
    const receiver = faults === this.up ? link.server : link.client;
    receiver.write(head, () => setImmediate(() => this.#reset(link)));
    return undefined;
  }

  async #deliverSlowly(link: Link, faults: ProxyFaults, to: Socket, chunk: Buffer, dueAt: number): Promise<void> {
    const waitMs = dueAt - performance.now();
    if (waitMs > 0) await pause(waitMs);
    if (faults.bytesPerSecond > 0) await pause((chunk.length / faults.bytesPerSecond) * 1_000);
    if (faults.hole || link.isTorn || to.destroyed) {
      link.isTorn = true;
      this.#stats.droppedBytes += chunk.length;
      return;
    }
    const size = faults.sliceBytes > 0 ? faults.sliceBytes : chunk.length;
    for (let at = 0; at < chunk.length && !to.destroyed; at += size) {
      to.write(chunk.subarray(at, at + size));
      // A turn of the event loop between two writes makes them two packets.
      if (at + size < chunk.length) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #reset(link: Link): void {
    if (!this.#links.delete(link)) return;
    this.#stats.resets += 1;
    resetNow(link.client);
    resetNow(link.server);
  }

  #remove(link: Link): void {
    this.#links.delete(link);
    link.client.destroy();
    link.server.destroy();
  }
}

const isSlow = (faults: ProxyFaults): boolean =>
  faults.latencyMs > 0 || faults.jitterMs > 0 || faults.sliceBytes > 0 || faults.bytesPerSecond > 0;

/** `resetAndDestroy` alone first sends an orderly end, and only a slow reader then sees the reset. */
function resetNow(socket: Socket): void {
  socket.resetAndDestroy();
  socket.destroy();
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function deliver(from: Socket, to: Socket, chunk: Buffer): void {
  if (to.write(chunk)) return;
  from.pause();
  to.once("drain", () => from.resume());
}

/** Numbers from 0 to 1, the same for the same seed. Only the high bits of such a sequence are random enough. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state >>> 8) / 2 ** 24;
  };
}
