import type { RedisLike } from "../index.js";
import type { Limit } from "../kernel/index.js";
import { type ClientContext, Deadline, newToken, ObjectLife } from "../toolkit/index.js";
import { type ConfigKeys, configKeys } from "./keys.js";
import type { ConfigSettings, Question, ResolvedWrite } from "./options.js";
import * as scripts from "./scripts.js";

/** One entry on one client. Every command that configuration sends goes through this class. */
export class ConfigCommands {
  readonly name: string;
  readonly settings: ConfigSettings;
  /** The life of the object that follows the entry. */
  readonly life: ObjectLife;
  readonly context: ClientContext;
  readonly channel: string;
  readonly #keys: ConfigKeys;

  constructor(redis: RedisLike, name: string, settings: ConfigSettings) {
    this.name = name;
    this.settings = settings;
    this.#keys = configKeys(settings.prefix, name);
    this.channel = this.#keys.changed;
    this.life = new ObjectLife(redis, { prefix: settings.prefix }, "The configuration");
    this.context = this.life.context;
  }

  read(options: Question): Promise<scripts.StoredEntry | undefined> {
    return scripts.read.run(this.context, this.#keys, {}, options);
  }

  write(
    value: string,
    { op: given, expected, author, ...options }: ResolvedWrite,
  ): Promise<{ readonly isWritten: boolean; readonly version: scripts.ConfigVersion | undefined }> {
    const { channel, settings } = this;
    const op = given ?? newToken();
    const args = { op, expected, author, value, maxHistory: settings.maxHistory, channel };
    return scripts.set.run(this.context, this.#keys, args, { ...options, op, isRepeatable: given !== undefined });
  }

  /** How long a call waits for the schema. */
  limit({ deadlineMs, signal }: Question): Limit & { readonly deadline: Deadline } {
    return { deadline: Deadline.in(deadlineMs), signal: [signal, this.life.signal] };
  }

  history(limit: number, revision: number | "", options: Question): Promise<readonly scripts.KeptEntry[]> {
    return scripts.history.run(this.context, this.#keys, { limit, revision }, options);
  }
}
