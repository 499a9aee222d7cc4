import { health, KitError, KitUnknownOutcomeError } from "@kit/core";
import { CallTimeoutError, JobFailedError } from "@kit/queue";

/** The handlers, for a worker in any process. A partner does the work; it recognises a repeat by the job's id. */
export const handlers = { order: sent, quote: sent };

async function sent({ id, name, data, signal }) {
  const body = JSON.stringify({ id, ...data });
  const response = await fetch(`${process.env["PARTNER_URL"]}/${name}`, { method: "POST", body, signal });
  if (!response.ok) throw new Error(`The partner replied with ${response.status}`);
  return response.json();
}

/** Adds an order, and resolves with the reply to a request. With a key of its client a repeat of the request adds nothing, for a day. */
export async function order(queue, data, key) {
  try {
    const unique = key ? { key, ttlMs: 86_400_000 } : undefined;
    return { status: 202, body: { id: await queue.add("order", data, { unique }) } };
  } catch (error) {
    return refused(error);
  }
}

/** Waits for the outcome of a job, at most `waitMs`, and resolves with the reply to a request. */
export async function quote(queue, data, waitMs = 10_000) {
  try {
    return { status: 200, body: await queue.call("quote", data, { waitMs, maxAttempts: 1 }) };
  } catch (error) {
    if (error instanceof CallTimeoutError) return { status: 504, body: { job: error.id } }; // it stays in the queue
    if (error instanceof JobFailedError) return { status: 502, body: { job: error.id } }; // it is a dead letter
    return refused(error);
  }
}

function refused(error) {
  if (error instanceof KitError && error.retryable) return { status: 503, body: {} }; // Redis is away: a repeat does no harm
  if (error instanceof KitUnknownOutcomeError) return { status: 500, body: { error: error.code } }; // a repeat may do it twice
  throw error;
}

/** Whether this process should get requests. */
export async function readiness(redis) {
  const { ok } = await health(redis, 1_000);
  return { status: ok ? 200 : 503, body: { ok } };
}
