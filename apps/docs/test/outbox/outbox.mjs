import { randomUUID } from "node:crypto";
import { KitUnknownOutcomeError } from "@kit/core";
import { JobPayloadError } from "@kit/queue";

export const table = `
  CREATE TABLE IF NOT EXISTS outbox (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL,
    name text NOT NULL,
    data jsonb NOT NULL,
    refused text
  )`;

/** Adds a job if the transaction of `client` commits, and none if it does not. Resolves with the job's id. */
export async function addLater(client, name, data) {
  const id = randomUUID();
  await client.query("INSERT INTO outbox (id, name, data) VALUES ($1, $2, $3)", [id, name, JSON.stringify(data)]);
  return id;
}

/** Moves rows of the outbox into the queue. */
export class Relay {
  #queue;
  // Adds whose reply was lost. With `op` the queue adds the job only if the first add did not.
  #ops = new Map();

  constructor(queue) {
    this.#queue = queue;
  }

  /** Adds the jobs of the oldest rows and deletes the rows. Resolves with how many rows it found. */
  async step(client) {
    await client.query("BEGIN");
    try {
      // Another relay waits here until this one has committed, so that the order stays.
      const { rows } = await client.query(
        "SELECT id, name, data FROM outbox WHERE refused IS NULL ORDER BY position LIMIT 100 FOR UPDATE",
      );
      const added = await Promise.allSettled(rows.map((row) => this.#add(client, row)));
      for (const { reason } of added) if (reason) throw reason;
      await client.query("DELETE FROM outbox WHERE refused IS NULL AND id = ANY($1)", [rows.map(({ id }) => id)]);
      await client.query("COMMIT");
      return rows.length;
    } catch (error) {
      await client.query("ROLLBACK").catch(() => undefined);
      throw error;
    }
  }

  async #add(client, { id, name, data }) {
    try {
      await this.#queue.add(name, data, { id, op: this.#ops.get(id) });
      this.#ops.delete(id);
    } catch (error) {
      if (error instanceof KitUnknownOutcomeError) this.#ops.set(id, error.op);
      if (!(error instanceof JobPayloadError || error instanceof RangeError)) throw error;
      // The queue will never accept this job. It must not hold up the others.
      await client.query("UPDATE outbox SET refused = $2 WHERE id = $1", [id, error.message]);
    }
  }
}
