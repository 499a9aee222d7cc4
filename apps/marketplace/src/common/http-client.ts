// A small HTTP client for the processes that play visitors. It sends forms and cookies as a browser does.
import { Agent, request } from "node:http";

export interface Reply {
  readonly status: number;
  readonly body: string;
  readonly location: string | undefined;
  readonly cookie: string | undefined;
  /** From the first byte sent to the last byte received. */
  readonly ms: number;
}

export interface Ask {
  readonly cookie?: string | undefined;
  /** Sends a POST with these fields. */
  readonly form?: Readonly<Record<string, string>> | undefined;
  readonly accept?: string;
  readonly agent?: Agent | undefined;
  readonly timeoutMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One request on a socket of its own, unless an agent is given. Redirects are not followed. */
export const ask = (origin: string, path: string, options: Ask = {}): Promise<Reply> => {
  const { cookie, form, accept = "text/html", agent = new Agent({ keepAlive: false }), timeoutMs = 15_000 } = options;
  const body = form && new URLSearchParams(form).toString();
  const headers: Record<string, string> = { accept };
  if (cookie !== undefined) headers["cookie"] = cookie;
  if (body !== undefined) {
    headers["content-type"] = "application/x-www-form-urlencoded";
    headers["content-length"] = String(Buffer.byteLength(body));
    headers["origin"] = origin;
  }
  Object.assign(headers, options.headers);
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const sent = request(new URL(path, origin), {
      method: body === undefined ? "GET" : "POST",
      headers,
      agent,
      signal: AbortSignal.timeout(timeoutMs),
    });
    sent.on("error", reject);
    sent.on("response", (response) => {
      const parts: Buffer[] = [];
      response.on("error", reject);
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          body: Buffer.concat(parts).toString("utf8"),
          location: response.headers.location,
          cookie: response.headers["set-cookie"]?.[0]?.split(";")[0],
          ms: performance.now() - startedAt,
        }),
      );
    });
    sent.end(body);
  });
};

/** The value of a hidden field of a page. */
export const field = (page: string, name: string): string => {
  const tag = new RegExp(`<input[^>]* name="${name}"[^>]*>`).exec(page)?.[0] ?? "";
  const value = / value="([^"]*)"/.exec(tag)?.[1];
  if (value === undefined) throw new Error(`the page has no field ${name}`);
  return value;
};
