import { custom, integer, required, type Resolved, type RulesOf } from "../kernel/index.js";

/** The address of the endpoint, and how to send requests. */
export interface HttpClientOptions {
  /** The address of the endpoint: `https://…`, or `http://…` in a private network. It must not contain credentials or a query. */
  readonly url: string | URL;
  /** Sent as `Authorization: Bearer …`. Errors and logs of the client never contain it. */
  readonly token: string;
  /**
   * How long to wait for a whole reply, in milliseconds: 1 to 86,400,000 (a day). After that kit ends the request. A shorter
   * `deadlineMs` of the calling object ends the call earlier.
   *
   * @default 10000
   */
  readonly timeoutMs?: number | undefined;
  /**
   * The maximum length of a reply, in bytes: 1,024 to 2,147,483,648 (2 GiB). If a reply is longer, it counts as lost.
   *
   * @default 67108864 (64 MiB)
   */
  readonly maxReplyBytes?: number | undefined;
  /**
   * Sends the requests. Set it for a proxy, or for a runtime with a custom `fetch`.
   *
   * @default globalThis.fetch
   */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

// No error shows the value: it may contain a secret.
const checked = <Value>(name: string, value: Value, isRight: boolean, wanted: string): Value => {
  if (!isRight) throw new TypeError(`Expected \`${name}\` to be ${wanted}`);
  return value;
};

const endpoint = (name: string, value: string | URL): string => {
  const url = URL.canParse(String(value)) ? new URL(value) : undefined;
  const isPlain = !!url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash;
  return checked(name, String(url), isPlain, "an http or https URL without credentials, query and fragment");
};

const bearer = (name: string, value: string): string =>
  checked(
    name,
    value,
    typeof value === "string" && /^[\x21-\x7e]+$/.test(value),
    "a string of visible ASCII characters",
  );

const sender = (name: string, value: typeof globalThis.fetch): typeof globalThis.fetch =>
  checked(name, value, typeof value === "function", "a function");

export const httpRules = {
  url: required(custom(endpoint)),
  token: required(custom(bearer)),
  timeoutMs: integer(1, 86_400_000, 10_000),
  maxReplyBytes: integer(1_024, 2_147_483_648, 67_108_864),
  fetch: custom(sender),
} satisfies RulesOf<HttpClientOptions>;

export type HttpSettings = Resolved<typeof httpRules>;
