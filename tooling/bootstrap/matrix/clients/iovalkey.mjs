// `connect` for the first programs of the READMEs: a client of iovalkey in the place of ours.
import { Redis } from "iovalkey";

/** @param {string} [url] */
export const connect = async (url = process.env["REDIS_URL"]) => {
  const client = new Redis(url ?? "");
  return Object.assign(client, { close: () => client.quit() });
};
