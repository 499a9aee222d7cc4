import { KitError } from "@kit/core";
import { httpClient } from "@kit/core/http";
import { createQueue } from "@kit/queue";
import { inspectJob } from "@kit/queue/manage";
import { createStats } from "@kit/stats";

// Made once for each instance of the function, not for each request. Nothing has to be closed.
const redis = httpClient({
  url: process.env["UPSTASH_REDIS_REST_URL"],
  token: process.env["UPSTASH_REDIS_REST_TOKEN"],
});
const queue = createQueue(redis, "shop");
const stats = createStats(redis);
const orders = stats.counter("orders_total");

/** Adds a job. A client that got no reply sends its request again, with the same key: for a day that adds no second job. */
export async function POST(request) {
  const key = request.headers.get("idempotency-key") ?? "";
  if (!/^[\w-]{1,64}$/.test(key)) return Response.json({ error: "Idempotency-Key" }, { status: 400 });
  const order = await request.json();
  return await replied(async () => {
    const { id, isAdded } = await queue.addOnce("order", order, { unique: { key, ttlMs: 86_400_000 } });
    if (isAdded) orders.inc();
    // A function may be frozen once it has replied, with what it has not sent.
    await stats.flush();
    return Response.json({ id, isAdded }, { status: 202 });
  });
}

/** Where the job is. */
export async function GET(request) {
  const id = new URL(request.url).searchParams.get("id") ?? "";
  return await replied(async () => {
    const { state } = await inspectJob(redis, { queue: "shop" }, id);
    return Response.json({ id, state });
  });
}

async function replied(handle) {
  try {
    return await handle();
  } catch (error) {
    // Nothing was done, or the key of the request makes its repeat harmless. After any other unknown outcome `retryable` is false.
    if (KitError.is(error) && error.retryable) return Response.json({ error: error.code }, { status: 503 });
    throw error;
  }
}
