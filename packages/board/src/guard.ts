/** Forms are small. */
const maxBody = 64 * 1_024;

/** Every reply has these. Nothing may run in a page but its own script, and no other page may frame it or read it. */
export const headers: Readonly<Record<string, string>> = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "cache-control": "no-store",
};

/**
 * Whether a form was sent by a page of this origin. Browsers state it in a header that no page can change. An old browser sends only `Origin`,
 * which must then have the host of the request: behind a proxy the scheme can differ. A request with neither is no form of a browser.
 */
export const isOwnForm = (request: Request): boolean => {
  const site = request.headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin";
  const origin = request.headers.get("origin");
  if (origin === null || !URL.canParse(origin)) return false;
  const { host } = new URL(origin);
  return host !== "" && host === (request.headers.get("host") ?? new URL(request.url).host);
};

/** The fields of a form. Undefined: it is no form, or larger than 64 KiB. */
export const formOf = async (request: Request): Promise<URLSearchParams | undefined> => {
  if (!/^application\/x-www-form-urlencoded\b/i.test(request.headers.get("content-type") ?? "")) return undefined;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > maxBody) return undefined;
    chunks.push(chunk);
  }
  return new URLSearchParams(Buffer.concat(chunks).toString("utf8"));
};
