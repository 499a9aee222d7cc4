export { httpClient } from "./client.js";

export type { HttpClientOptions } from "./options.js";
