export const table = `
  CREATE TABLE IF NOT EXISTS jobs_done (
    job text PRIMARY KEY,
    done_at timestamptz NOT NULL DEFAULT now()
  )`;

/** Runs `effect` in a transaction that also records the job, unless it is recorded already. */
export async function once(pool, job, effect) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const { rowCount } = await client.query("INSERT INTO jobs_done (job) VALUES ($1) ON CONFLICT DO NOTHING", [job.id]);
    if (rowCount === 1) await effect(client, job);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  } finally {
    client.release();
  }
}
