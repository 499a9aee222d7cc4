// The buyers of a race, in a process of their own. It connects one socket per buyer, and only then sends all requests.
import { once } from "node:events";
import { Agent } from "node:http";
import { connect, type Socket } from "node:net";
import { serveChild } from "../common/child.js";
import { ask } from "../common/http-client.js";

export interface BuyersTask {
  readonly origin: string;
  readonly path: string;
  readonly buyers: readonly { readonly cookie: string; readonly form: Readonly<Record<string, string>> }[];
}

export interface BuyerReply {
  /** The HTTP status; 0 if there was no reply. */
  readonly status: number;
  readonly outcome: string;
  readonly ms: number;
}

/** An agent with a single socket, which is connected already. */
class OneSocket extends Agent {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super({ keepAlive: false });
    this.#socket = socket;
  }

  override createConnection(): Socket {
    return this.#socket;
  }
}

const outcomeOf = (body: string): string => {
  try {
    const { outcome } = JSON.parse(body) as { outcome?: { kind?: unknown } };
    return typeof outcome?.kind === "string" ? outcome.kind : "no-outcome";
  } catch {
    return "no-outcome";
  }
};

serveChild(async ({ origin, path, buyers }: BuyersTask): Promise<BuyerReply[]> => {
  const { hostname, port } = new URL(origin);
  const sockets = await Promise.all(
    buyers.map(async () => {
      const socket = connect(Number(port), hostname).setNoDelay(true);
      await once(socket, "connect");
      return socket;
    }),
  );
  return await Promise.all(
    buyers.map(async ({ cookie, form }, index) => {
      try {
        const agent = new OneSocket(sockets[index] as Socket);
        const { status, body, ms } = await ask(origin, path, { cookie, form, agent, accept: "application/json" });
        return { status, outcome: outcomeOf(body), ms };
      } catch {
        return { status: 0, outcome: "not-answered", ms: 0 };
      }
    }),
  );
});
