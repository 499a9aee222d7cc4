import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { PGlite } from "@electric-sql/pglite";

const sslRequest = 80_877_103;
const startup = 196_608;

/**
 * Postgres in this process, for clients in any process. It has one session, so a connection has it for a whole transaction, and the
 * transactions of all connections run one after the other. The transaction of a connection that ends is rolled back.
 */
export class Postgres implements AsyncDisposable {
  readonly url: string;
  readonly #db: PGlite;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #turn: Promise<void> = Promise.resolve();

  private constructor(db: PGlite, server: Server) {
    this.#db = db;
    this.#server = server;
    this.url = `postgres://postgres@127.0.0.1:${String((server.address() as AddressInfo).port)}/postgres`;
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => undefined).on("close", () => this.#sockets.delete(socket));
      void this.#serve(socket).catch(() => socket.destroy());
    });
  }

  static async start(): Promise<Postgres> {
    const db = await PGlite.create();
    const server = createServer({ noDelay: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Postgres(db, server);
  }

  async #serve(socket: Socket): Promise<void> {
    let done: (() => void) | undefined;
    try {
      for await (const message of messagesOf(socket)) {
        done ??= await this.#takeTurn();
        const reply = await this.#db.execProtocolRaw(message);
        if (reply.length > 0) socket.write(reply);
        if (!isIdle(reply)) continue;
        done();
        done = undefined;
      }
    } finally {
      if (done) await this.#db.exec("ROLLBACK");
      done?.();
      socket.destroy();
    }
  }

  async #takeTurn(): Promise<() => void> {
    const before = this.#turn;
    let done = (): void => undefined;
    this.#turn = new Promise((resolve) => (done = resolve));
    await before;
    return done;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    await this.#turn;
    await this.#db.close();
  }
}

/** The messages of a client, each whole; `Terminate` ends them. */
async function* messagesOf(socket: Socket): AsyncGenerator<Uint8Array> {
  let rest = Buffer.alloc(0);
  let hasBegun = false;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const head = hasBegun ? 1 : 0;
      if (rest.length < head + 8 && !(hasBegun && rest.length >= 5)) break;
      const length = head + rest.readInt32BE(head);
      if (rest.length < length) break;
      const message = rest.subarray(0, length);
      rest = rest.subarray(length);
      if (hasBegun) {
        if (message[0] === "X".charCodeAt(0)) return;
        yield new Uint8Array(message);
        continue;
      }
      const kind = message.readInt32BE(4);
      if (kind === sslRequest) socket.write("N");
      hasBegun = kind === startup;
      if (hasBegun) yield new Uint8Array(message);
    }
  }
}

/** Whether a reply ends with ReadyForQuery, outside of a transaction. */
const isIdle = (reply: Uint8Array): boolean =>
  Buffer.from(reply.subarray(-6)).equals(Buffer.from([0x5a, 0, 0, 0, 5, "I".charCodeAt(0)]));
