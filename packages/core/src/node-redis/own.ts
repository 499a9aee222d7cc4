import { SingleClient } from "./client.js";
import { listenTo } from "./listening.js";
import { duplicateOptions, type Overrides, serverOf } from "./options.js";
import type { NodeRedisClient } from "./types.js";

/** The client whose settings a kit connection uses. */
export interface Owner {
  readonly template: NodeRedisClient;
  readonly options: SingleClient["options"];
  /** Finds out where the client leads, and its database. */
  prepare(): Promise<void>;
}

/**
 * A connection that kit opens. Each time it connects, it creates a new node-redis client, which never reconnects by itself: core
 * does that.
 */
export class OwnClient extends SingleClient {
  readonly options: SingleClient["options"];
  protected client: NodeRedisClient | undefined;
  readonly #owner: Owner;
  readonly #overrides: Overrides;
  #ending = new AbortController();
  #isConnecting = false;

  constructor(owner: Owner, overrides: Overrides) {
    super();
    this.#owner = owner;
    this.#overrides = overrides;
    const { host, port, db = owner.options.db } = overrides;
    const { path, ...others } = owner.options;
    const server = host === undefined ? path !== undefined && { path } : { host, port: port ?? 6379 };
    this.options = { ...others, ...server, db };
  }

  override get status(): string {
    return this.#isConnecting && !this.client?.isOpen ? "connecting" : super.status;
  }

  async connect(): Promise<void> {
    if (this.#isConnecting || this.client?.isOpen) return;
    const ending = (this.#ending = new AbortController());
    this.#isConnecting = true;
    this.hasEnded = false;
    this.emit("connecting");
    try {
      const known = this.#owner.options.db;
      await this.#owner.prepare();
      ending.signal.throwIfAborted();
      if (this.options.db === known) this.options.db = this.#owner.options.db;
      const { template } = this.#owner;
      if (this.#overrides.host === undefined) Object.assign(this.options, serverOf(template));
      const { db } = this.options;
      const options = duplicateOptions(template, this.#overrides, db, ending.signal);
      const client = template.duplicate(options as never) as NodeRedisClient;
      this.client = client;
      // If the database changes while it connects, it selects the other one before its first command.
      client.on("ready", () => {
        if (this.options.db !== db) this.call("select", this.options.db).catch(() => undefined);
      });
      listenTo(client, this.handlers);
      await client.connect();
    } finally {
      // By now, it may have been ended and be connecting again.
      if (this.#ending === ending) {
        this.#isConnecting = false;
        this.update();
      }
    }
  }

  disconnect(): void {
    const { client } = this;
    this.#isConnecting = false;
    try {
      if (client?.isOpen) client.destroy();
    } finally {
      this.#ending.abort();
      this.update();
    }
  }

  override duplicate(overrides: Overrides = {}): OwnClient {
    return new OwnClient(this.#owner, { ...this.#overrides, db: this.options.db, ...overrides });
  }

  protected destroy(): void {
    this.disconnect();
  }

  protected listen(): () => void {
    return () => undefined;
  }
}
