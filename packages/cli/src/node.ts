import { infoFields, isForbidden, isReplyError } from "@kit/core/toolkit";
import type { Redis, RedisOptions } from "ioredis";

type Settings = Omit<RedisOptions, "replyMapping">;

/** The members of ioredis' `Redis` that one connection needs, with any reply mapping. */
export interface NodeConnection {
  readonly options: RedisOptions;
  readonly stream?: { readonly remoteAddress?: string | undefined; readonly remotePort?: number | undefined };
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  duplicate(override: Settings): Redis;
  disconnect(): void;
}

/** How long a server may take for one reply. */
const answerMs = 1_500;

/** The server refuses the command: the user is not permitted, or the command was renamed. */
export class Refused extends Error {
  override name = "Refused";
}

/** The server does not answer, or cannot be reached. */
export class Silent extends Error {
  override name = "Silent";
  /** Whether it is not reported yet. */
  readonly isNews: boolean;

  constructor(message: string, isNews: boolean) {
    super(message);
    this.isNews = isNews;
  }
}

/** One server process, and its replies about itself. */
export class ServerNode {
  readonly address: string;
  readonly host: string;
  readonly port: number;
  readonly #connection: NodeConnection;
  #info: Promise<ReadonlyMap<string, string>> | undefined;
  #silence: string | undefined;

  constructor(connection: NodeConnection) {
    const { path, sentinels, host = "127.0.0.1", port = 6379 } = connection.options;
    const { remoteAddress = host, remotePort = port } = connection.stream ?? {};
    // Behind Sentinels the options have no address; elsewhere they have the caller's.
    this.host = path === undefined ? (sentinels ? remoteAddress : host) : "127.0.0.1";
    this.port = sentinels ? remotePort : port;
    this.address = path ?? `${this.host}:${String(this.port)}`;
    this.#connection = connection;
  }

  /** The settings of the connection; they hold the password. */
  get settings(): RedisOptions {
    return this.#connection.options;
  }

  /** Why no more commands are sent to it. */
  get silence(): string | undefined {
    return this.#silence;
  }

  /** Checks whether it answers at all. Never rejects. */
  async greet(): Promise<void> {
    await this.call("PING").catch(() => undefined);
  }

  /** Closes the connection immediately. */
  disconnect(): void {
    this.#connection.disconnect();
  }

  /**
   * Sends one command. If a process did not answer a command, it receives no further ones: each would take just as long.
   *
   * @throws {Refused} the server refuses the command.
   * @throws {Silent} no answer.
   * @throws {Error} any other error of the server.
   */
  async call(command: string, ...args: (string | number)[]): Promise<unknown> {
    const words = [command, ...(spokenWith.has(command) ? args.slice(0, 1) : [])].join(" ");
    if (this.#silence !== undefined) throw new Silent(this.#silence, false);
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`${words}: no answer within ${String(answerMs / 1_000)} s`)), answerMs);
    });
    try {
      return await Promise.race([this.#connection.call(command, ...args), silence]);
    } catch (error) {
      if (isForbidden(error)) throw new Refused(words);
      const message = error instanceof Error ? error.message : String(error);
      if (!isReplyError(error)) {
        // Several requests fail at the same time, and one of them reports it.
        const isNews = this.#silence === undefined;
        this.#silence ??= message;
        throw new Silent(this.#silence, isNews);
      }
      throw new Error(message.replace(/,? with args beginning with:.*/s, ""));
    } finally {
      clearTimeout(timer);
    }
  }

  /** The cheapest call, to measure many. */
  ping(): Promise<unknown> {
    return this.#connection.call("PING");
  }

  /** The fields of INFO, read once. @throws {Refused} */
  info(): Promise<ReadonlyMap<string, string>> {
    return (this.#info ??= this.freshInfo());
  }

  /** The fields of INFO as they are now. @throws {Refused} */
  async freshInfo(): Promise<ReadonlyMap<string, string>> {
    return infoFields(await this.call("INFO"));
  }

  /** The settings that the server runs with, by name. @throws {Refused} */
  async config(...names: string[]): Promise<ReadonlyMap<string, string>> {
    const settings = new Map<string, string>();
    for (const name of names) {
      const reply = (await this.call("CONFIG", "GET", name)) as readonly string[];
      for (let at = 0; at + 1 < reply.length; at += 2) settings.set(reply[at] ?? "", reply[at + 1] ?? "");
    }
    return settings;
  }

  /** Another connection to this process, not yet opened. The caller must disconnect it. */
  another(override: Settings = {}): Redis {
    const connection = this.#connection.duplicate({
      sentinels: undefined as never,
      host: this.host,
      port: this.port,
      lazyConnect: true,
      enableReadyCheck: false,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      connectTimeout: answerMs,
      retryStrategy: () => null,
      ...override,
    });
    // ioredis prints errors without a listener; the calls on it reject as well.
    connection.on("error", () => undefined);
    return connection;
  }
}

/** Commands whose first argument is part of their name. */
const spokenWith = new Set(["CONFIG", "ACL", "CLUSTER", "SLOWLOG", "SENTINEL", "CLIENT"]);

/** A number among the fields of INFO; NaN when the server does not report it. */
export const numberOf = (info: ReadonlyMap<string, string>, name: string): number =>
  Number(info.get(name) ?? Number.NaN);
