import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** A request that waits at the {@link RequestProxy}. */
export interface HeldRequest {
  /** Resolves once the request is at the proxy; the server has not seen it. */
  readonly reached: Promise<void>;
  /** Forwards the request. */
  release(): void;
}

/**
 * A proxy in front of one Redis server, by which a test injects a fault between two round trips of unchanged code. The
 * proxy counts the requests of a client. It can hold a request that a test waits for, and cut the connection like a crash.
 *
 * A request is everything that the client writes before it waits for a reply, so a pipeline is one request. The client
 * may have only one call in flight.
 */
export class RequestProxy implements AsyncDisposable {
  /** Round trips since the last {@link reset}. */
  requests = 0;
  /** Runs before each request is forwarded; the request waits for it. */
  before: (text: string) => Promise<void> | void = () => undefined;
  readonly #server: Server;
  readonly #sockets: Set<Socket> = new Set();

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Opens a proxy to the server on 127.0.0.1:`port`. */
  static async open(port: number): Promise<RequestProxy> {
    const server = createServer();
    const proxy = new RequestProxy(server);
    server.on("connection", (client) => proxy.#relay(client, port));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return proxy;
  }

  /** The address to which the client under test connects. */
  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Sets the count to 0. To be called once the client is ready, so that its handshake does not count. */
  reset(): void {
    this.requests = 0;
  }

  /** Holds the next request whose bytes match. Others pass. */
  hold(pattern: RegExp): HeldRequest {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const reached = new Promise<void>((resolve) => {
      this.before = async (text) => {
        if (!pattern.test(text)) return;
        this.before = () => undefined;
        resolve();
        await released;
      };
    });
    return { reached, release };
  }

  /** Runs a call up to the request that matches, and cuts the connection before the server receives that request. */
  async crashAt(pattern: RegExp, call: Promise<unknown>): Promise<void> {
    const ended = Promise.allSettled([call]);
    await this.hold(pattern).reached;
    this.cut();
    const [{ status }] = await ended;
    if (status === "fulfilled") throw new Error("the call outlived its connection");
  }

  /** Ends every connection at once. Held commands are lost, as if their sender had crashed before sending them. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #relay(client: Socket, port: number): void {
    const server = connect(port, "127.0.0.1");
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      this.#sockets.add(socket);
      // Tests may reset a connection; only the following close matters.
      socket.on("error", () => undefined);
      socket.on("close", () => this.#sockets.delete(socket));
    }
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
    server.on("data", (reply) => client.write(reply));
    let previous = Promise.resolve();
    client.on("data", (request) => {
      previous = previous.then(async () => {
        this.requests += 1;
        await this.before(request.toString("latin1"));
        if (!server.destroyed) server.write(request);
      });
    });
  }
}
