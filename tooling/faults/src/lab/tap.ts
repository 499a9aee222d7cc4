import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** One command that was repeated, and the replies to the copies. */
export interface Echo {
  readonly command: readonly string[];
  readonly reply: unknown;
}

/** `args` are the raw bytes, so that a copy equals its original. */
type Repeat = (command: string, args: readonly Buffer[]) => Promise<unknown>;

/**
 * The whole commands of a chunk. On loopback a client's write arrives in one piece, so most chunks end with a whole
 * command. A torn command is forwarded and not repeated.
 */
export const commandsIn = (chunk: Buffer): Buffer[][] => {
  const commands: Buffer[][] = [];
  let at = 0;
  const line = (sign: string): number => {
    const end = chunk.indexOf("\r\n", at);
    if (end < 0 || String.fromCharCode(chunk[at] ?? 0) !== sign) return -1;
    const count = Number(chunk.toString("latin1", at + 1, end));
    at = end + 2;
    return count;
  };
  while (at < chunk.length) {
    const parts: Buffer[] = [];
    const count = line("*");
    if (!(count > 0)) return commands;
    for (let part = 0; part < count; part++) {
      const length = line("$");
      if (!(length >= 0) || at + length + 2 > chunk.length) return commands;
      parts.push(chunk.subarray(at, at + length));
      at += length + 2;
    }
    commands.push(parts);
  }
  return commands;
};

/**
 * Forwards connections to a server, or, like a name in DNS or a virtual IP, to the one that is its target by then. While `copies` is above 0 it repeats every script call that many times, as a caller
 * does whose reply was lost. The copies run after the original and before the caller receives the reply.
 */
export class Tap {
  static async start(port: number, repeat: Repeat): Promise<Tap> {
    const tap = new Tap(port, repeat);
    await new Promise<void>((resolve) => tap.#listener.listen(0, "127.0.0.1", resolve));
    return tap;
  }

  copies = 0;
  /** The results of the copies. */
  readonly echoes: Echo[] = [];
  #port: number;
  /** The open links, by the port of their server. */
  readonly #links = new Map<Socket, number>();
  readonly #repeat: Repeat;
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(port: number, repeat: Repeat) {
    this.#port = port;
    this.#repeat = repeat;
    this.#listener = createServer({ noDelay: true, pauseOnConnect: true }, (socket) => this.#accept(socket));
  }

  get port(): number {
    return (this.#listener.address() as AddressInfo).port;
  }

  /** The server that new connections lead to. Changed, it leaves open links where they are. */
  set target(port: number) {
    this.#port = port;
  }

  /** The number of open links to a server. */
  linksTo(port: number): number {
    return [...this.#links.values()].filter((other) => other === port).length;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#listener.close(resolve));
  }

  #accept(client: Socket): void {
    const server = connect({ port: this.#port, host: "127.0.0.1", noDelay: true });
    this.#links.set(server, this.#port);
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        this.#links.delete(socket);
        client.destroy();
        server.destroy();
      });
    }
    server.once("connect", () => client.resume());
    // Script calls that were forwarded and not yet repeated.
    let scripts: { readonly command: Buffer[]; readonly copies: number }[] = [];
    client.on("data", (chunk) => {
      server.write(chunk);
      const { copies } = this;
      if (copies === 0) return;
      const found = commandsIn(chunk).filter(([name]) => /^EVAL(SHA)?$/i.test(String(name)));
      scripts.push(...found.map((command) => ({ command, copies })));
    });
    let copied: Promise<unknown> | undefined;
    server.on("data", (chunk) => {
      if (scripts.length === 0 && !copied) return void client.write(chunk);
      const sent = scripts;
      scripts = [];
      const now = Promise.all([copied, ...sent.map(({ command, copies }) => this.#copy(command, copies))]);
      copied = now;
      void now.then(() => {
        client.write(chunk);
        if (copied === now) copied = undefined;
      });
    });
  }

  async #copy([name, ...args]: readonly Buffer[], copies: number): Promise<void> {
    const repeat = async (): Promise<void> => {
      // A copy that fails is not recorded; the original's caller gets its own reply.
      const reply = await this.#repeat(String(name), args).catch(() => undefined);
      if (reply !== undefined) this.echoes.push({ command: [String(name), ...args.map(String)], reply });
    };
    await Promise.all(Array.from({ length: copies }, repeat));
  }
}
