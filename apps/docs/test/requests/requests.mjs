import { BlockList, isIP, isIPv6 } from "node:net";

/** The proxies of this server, which may name the address of a client. */
const proxies = new BlockList();
proxies.addAddress("127.0.0.1");
proxies.addSubnet("10.0.0.0", 8);

/**
 * The client's address: the last one that is not a proxy's. Clients can send an `X-Forwarded-For`, so the addresses before it
 * are only claims.
 */
export const addressOf = (request) => {
  const forwarded = String(request.headers["x-forwarded-for"] ?? "").split(",");
  const chain = [...forwarded, request.socket.remoteAddress ?? ""].map(plain).filter((one) => one !== "");
  return chain.findLast((one) => !isProxy(one)) ?? chain[0] ?? "unknown";
};

const isProxy = (address) => isIP(address) !== 0 && proxies.check(address, isIPv6(address) ? "ipv6" : "ipv4");

/** Without spaces and a zone. A dual-stack socket writes an IPv4 address as `::ffff:192.0.2.1`. */
const plain = (address) =>
  address
    .trim()
    .replace(/^::ffff:(?=\d+\.)/i, "")
    .replace(/%.*/, "");

/** The key of an address: an IPv4 address, or the /64 of an IPv6 address. One client can use all addresses of a /64. */
export const keyOf = (address) => {
  if (!isIPv6(address)) return address;
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const [start, end] = [head, tail ?? ""].map((part) => part.split(":").filter((group) => group !== ""));
  const zeros = Array.from({ length: 8 - start.length - end.length }, () => "0");
  return `${[...start, ...zeros, ...end].slice(0, 4).join(":")}::/64`;
};

/** The headers of an answer. Times are in seconds, rounded up, so that a client does not return too early. */
export const headersOf = ({ allowed, remaining, resetMs, retryAfterMs, refusedBy }, limits) => {
  const seconds = (ms) => String(Math.ceil(ms / 1_000));
  const all = Object.entries(limits);
  const policies = all.map(([name, { count, perMs }]) => `"${name}";q=${count};w=${seconds(perMs)}`);
  // `remaining` belongs to the limit with the fewest tokens. Without a refusal its name is known only if there is one limit.
  const name = refusedBy ?? (all.length === 1 ? all[0][0] : "block");
  return {
    "RateLimit-Policy": policies.join(", "),
    ...(name !== "block" && { RateLimit: `"${name}";r=${remaining};t=${seconds(allowed ? resetMs : retryAfterMs)}` }),
    ...(!allowed && { "Retry-After": seconds(retryAfterMs) }),
  };
};
