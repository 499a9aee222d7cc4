// `connect` for the first programs of the READMEs: a client of node-redis in the place of ours.
import { fromNodeRedis } from "@kit/core/node-redis";
import { createClient } from "redis";

/** @param {string} [url] */
export const connect = async (url = process.env["REDIS_URL"]) => {
  const client = await createClient({ url: url ?? "" }).connect();
  const redis = fromNodeRedis(client);
  // The commands of their own that the programs send.
  return Object.assign(redis, {
    close: () => client.close(),
    get: (/** @type {string} */ key) => client.get(key),
    hset: (/** @type {string} */ key, /** @type {Record<string, string>} */ fields) => client.hSet(key, fields),
  });
};
