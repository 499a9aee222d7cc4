import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** The member of an ioredis client that the bridge uses. */
interface Backend {
  callBuffer(command: string, ...args: string[]): Promise<unknown>;
}

/** One request, by its command. */
interface BridgeRequest {
  readonly command: readonly string[];
  readonly response: ServerResponse;
  /** Runs the command on the server and resolves with the status and the body of the reply. */
  execute(): Promise<readonly [status: number, body: object]>;
}

/**
 * What to do with a request instead of executing it and replying. A function that returns nothing has answered it, or has cut it off.
 */
export type Fault = (request: BridgeRequest) => Promise<void> | void;

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
};

/** A reply in JSON. In base64 all texts are encoded but `OK`. */
const jsonOf = (reply: unknown, isBase64: boolean): unknown => {
  if (Array.isArray(reply)) return reply.map((one) => jsonOf(one, isBase64));
  if (reply instanceof Error) return { error: reply.message };
  if (!Buffer.isBuffer(reply)) return reply;
  return isBase64 && reply.toString() !== "OK" ? reply.toString("base64") : reply.toString();
};

/**
 * An HTTP server in front of a real Redis server, for the client of `@kit/core/http`. It speaks the part of Upstash's REST protocol that
 * the client uses: one command for each POST to `/`.
 */
export class HttpBridge implements AsyncDisposable {
  readonly token = "canary-of-the-token";
  /** The commands in order of arrival, also those that were not executed. */
  readonly commands: (readonly string[])[] = [];
  /** What happens to the next requests, one after the other. */
  readonly faults: Fault[] = [];
  readonly #server;
  readonly #backend: Backend;

  private constructor(backend: Backend) {
    this.#backend = backend;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(backend: Backend): Promise<HttpBridge> {
    const bridge = new HttpBridge(backend);
    await new Promise<void>((resolve) => bridge.#server.listen(0, "127.0.0.1", resolve));
    return bridge;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const command = JSON.parse(await bodyOf(request)) as string[];
    const { authorization, "upstash-encoding": encoding } = request.headers;
    if (authorization !== `Bearer ${this.token}`) return reply(response, 401, { error: "WRONGPASS invalid token" });
    if (request.method !== "POST" || request.url !== "/")
      return reply(response, 405, { error: "ERR method not allowed" });
    this.commands.push(command);
    const execute = (): Promise<readonly [number, object]> => this.#execute(command, encoding === "base64");
    const fault = this.faults.shift();
    if (fault) await fault({ command, response, execute });
    else reply(response, ...(await execute()));
  }

  async #execute([name = "", ...args]: readonly string[], isBase64: boolean): Promise<readonly [number, object]> {
    try {
      return [200, { result: jsonOf(await this.#backend.callBuffer(name, ...args), isBase64) }];
    } catch (error) {
      return [400, { error: (error as Error).message }];
    }
  }
}

const reply = (response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void => {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
};

/** Replies with a status, and does not execute the command. */
export const status =
  (code: number, body: object = {}, headers: Record<string, string> = {}): Fault =>
  ({ response }) =>
    reply(response, code, body, headers);

/** Executes the command and replies, as without a fault. */
export const served: Fault = async ({ response, execute }) => reply(response, ...(await execute()));

/** Cuts the connection before the command is executed. */
export const cutBefore: Fault = ({ response }) => void response.destroy();

/** Executes the command, and cuts the connection before the reply. */
export const cutAfter: Fault = async ({ response, execute }) => {
  await execute();
  response.destroy();
};

/** Executes the command, and cuts the connection in the middle of the reply. */
export const cutWithin: Fault = async ({ response, execute }) => {
  const text = JSON.stringify((await execute())[1]);
  response.writeHead(200, { "content-length": String(text.length) });
  response.write(text.slice(0, -1), () => response.destroy());
};

/** Executes the command, and never replies. */
export const silence: Fault = async ({ execute }) => void (await execute());
