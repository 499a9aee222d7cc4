import { Deadline, inTime } from "../toolkit/index.js";
import { SingleClient } from "./client.js";
import { listenTo } from "./listening.js";
import { notForThreads, type Overrides, serverOf } from "./options.js";
import { OwnClient } from "./own.js";
import type { NodeRedisClient } from "./types.js";

/** How long the server may take to report the client's database, in milliseconds. */
const databaseMs = 500;

type Select = (db: number) => Promise<unknown>;

/**
 * The caller's client. While this object has a listener, it keeps one set of listeners on the client. It also watches `select()`,
 * because node-redis does not show the database that it changes to.
 */
export class BorrowedClient extends SingleClient {
  readonly options: SingleClient["options"];
  /** The client whose options kit's connections copy. */
  readonly template: NodeRedisClient;
  protected readonly client: NodeRedisClient;
  #checking: Promise<void> | undefined;
  /** How many calls of `select()` were seen. */
  #selects = 0;

  constructor(client: NodeRedisClient) {
    super();
    this.client = client;
    this.template = client;
    this.options = { ...notForThreads, ...serverOf(client), db: client.options?.database ?? 0 };
  }

  async connect(): Promise<void> {
    await this.client.connect();
  }

  disconnect(): void {
    if (this.client.isOpen) this.client.destroy();
  }

  override duplicate(overrides: Overrides = {}): OwnClient {
    return new OwnClient(this, overrides);
  }

  /** Finds out the client's database, which its owner may have selected before. */
  prepare(): Promise<void> {
    if (this.status !== "ready" || !this.isListening) return Promise.resolve();
    this.#checking ??= this.#check();
    return this.#checking;
  }

  async #check(): Promise<void> {
    const known = this.#selects;
    const asked = inTime(this.call("CLIENT", "INFO"), { deadline: Deadline.in(databaseMs) });
    const [, db] = / db=(\d+)/.exec(String(await asked.catch(() => undefined))) ?? [];
    // A change that was seen meanwhile is newer than this reply.
    if (known !== this.#selects) return;
    if (db === undefined) this.#checking = undefined;
    else this.moved(Number(db));
  }

  /** Does nothing: kit never ends the caller's connection. */
  protected destroy(): void {}

  protected override moved(db: number): void {
    if (db === this.options.db) return;
    this.options.db = db;
    super.moved(db);
  }

  protected listen(): () => void {
    const { client } = this;
    this.begin();
    const stopWatching = watchSelect(client, (db) => {
      this.#selects++;
      this.moved(db);
    });
    const stopListening = listenTo(client, this.handlers);
    return () => {
      this.#checking = undefined;
      stopWatching();
      stopListening();
    };
  }
}

/** Calls `moved` after each `select()` of a client. Returns a function that stops this. */
const watchSelect = (client: NodeRedisClient, moved: (db: number) => void): (() => void) => {
  const target = client as unknown as Record<string, Select>;
  const restore = ["select", "SELECT"].map((name) => {
    const own = Object.getOwnPropertyDescriptor(target, name);
    const original = target[name]!;
    target[name] = async (db) => {
      await original.call(client, db);
      moved(db);
    };
    return () => (own ? Object.defineProperty(target, name, own) : delete target[name]);
  });
  return () => restore.forEach((each) => each());
};
