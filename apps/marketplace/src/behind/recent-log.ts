// The shop's diary: its last hundred lines, in the Redis of the component `logs`. The configuration gives the address
// of that Redis, and can change it while the shop is open. Writers of lines are not affected.
import type { Connection } from "@kit/core";
import { type Component, createComponent, withComponent } from "@kit/core/config";
import { keyspace } from "@kit/core";

const linesKept = 100;
const dayMs = 86_400_000;

export class RecentLog {
  readonly #component: Component;
  readonly #key: string;
  readonly #append: (line: string) => Promise<unknown>;
  readonly #read: (count: number) => Promise<string[]>;

  constructor(redis: Connection, prefix: string) {
    const key = keyspace("shop", prefix).key("diary", "lines");
    this.#key = key;
    this.#component = createComponent(redis, "logs", { prefix });
    this.#component.on("error", () => undefined);
    this.#append = withComponent(this.#component, async (db, line: string) => {
      await db
        .multi()
        .lpush(key, line)
        .ltrim(key, 0, linesKept - 1)
        .pexpire(key, dayMs)
        .exec();
    });
    this.#read = withComponent(this.#component, async (db, count: number) => await db.lrange(key, 0, count - 1));
  }

  /** Points the component at the shop's own Redis, unless it is configured already. */
  async open(url: string): Promise<void> {
    const known = await this.#component.config.get().catch(() => null);
    if (!known) await this.#component.config.set({ url }, { author: "the shop" }).catch(() => undefined);
  }

  /** Moves the component to another server, in every process that uses it. */
  async moveTo(url: string): Promise<void> {
    await this.#component.config.set({ url }, { author: "ops page" });
  }

  get address(): string {
    try {
      return new URL(this.#component.config.current.url).host;
    } catch {
      return "unknown";
    }
  }

  get state(): string {
    return this.#component.state;
  }

  get key(): string {
    return this.#key;
  }

  /** Writes a line, without waiting; a failure is ignored. */
  write(text: string): void {
    const line = `${new Date().toISOString()} ${text}`;
    this.#append(line).catch(() => undefined);
  }

  async read(count: number): Promise<string[]> {
    return await this.#read(count).catch(() => []);
  }

  async close(): Promise<void> {
    await this.#component.close();
  }
}
