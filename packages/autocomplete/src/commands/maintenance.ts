import { absentKey } from "../keys.js";
import * as scripts from "../scripts/index.js";
import { type Shards, stagedMs } from "./shards.js";
import type { Rebuild } from "./writer.js";

/** The steps of a rebuild, the counts of an index, and its end. */
export class IndexMaintenance {
  readonly #shards: Shards;

  constructor(shards: Shards) {
    this.#shards = shards;
  }

  /** Empties the generation that is not current, and assigns it to a rebuild. */
  async stage(token: string, signal: AbortSignal | undefined): Promise<void> {
    const { all, context, own } = this.#shards;
    const args = { token, settings: own, keepMs: stagedMs };
    await Promise.all(
      all.map(({ keys }) =>
        scripts.stage.run(context, { ...keys, absent: absentKey(keys) }, args, this.#shards.options(signal, token)),
      ),
    );
  }

  /** Makes the staged generation current, shard after shard, if no batch is missing. */
  async switchOver({ token, batches }: Rebuild, signal: AbortSignal | undefined): Promise<void> {
    const { all, context, own } = this.#shards;
    for (const shard of all) {
      const keys = { ...shard.keys, absent: absentKey(shard.keys) };
      const isDone = await scripts.switchOver.run(
        context,
        keys,
        { token, batches: batches.get(shard) ?? 0 },
        this.#shards.options(signal, token),
      );
      if (!isDone) throw this.#shards.rebuildLost();
      this.#shards.learn(shard, own, "");
    }
  }

  async survey(signal: AbortSignal | undefined): Promise<scripts.Survey[]> {
    return await Promise.all(this.#shards.all.map((shard) => this.#shards.survey(shard, signal)));
  }

  async purge(signal: AbortSignal | undefined): Promise<void> {
    const { all, context } = this.#shards;
    await Promise.all(
      all.map(({ keys }) =>
        scripts.purge.run(context, { keys: Object.values(keys) as string[] }, {}, this.#shards.options(signal)),
      ),
    );
  }
}
