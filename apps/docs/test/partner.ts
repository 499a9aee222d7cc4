import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** A request that the partner has and has not answered. */
export interface Held {
  readonly name: string;
  readonly id: string;
  /** Answers with this, or with status 500. */
  answer(body: object | "failure"): void;
}

/** The HTTP server of somebody else, which does the work of the jobs. It answers when a test says so. */
export class Partner implements AsyncDisposable {
  readonly #server: Server;
  readonly held: Held[] = [];
  /** All requests, as `name id`. */
  readonly received: string[] = [];
  /** Answers at once with this. */
  automatic: object | undefined;

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", (request, response) => {
      void json(request).then((body) => {
        const [name, { id }] = [request.url?.slice(1) ?? "", body as { readonly id: string }];
        const answer = (content: object | "failure"): void => {
          if (content === "failure") response.statusCode = 500;
          response.end(JSON.stringify(content));
        };
        this.received.push(`${name} ${id}`);
        if (this.automatic) answer(this.automatic);
        else this.held.push({ name, id, answer });
      });
    });
  }

  static async start(): Promise<Partner> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new Partner(server);
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await once(this.#server.close(), "close");
  }
}
