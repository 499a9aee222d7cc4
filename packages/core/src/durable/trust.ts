/**
 * Why a server's WAITAOF is not reliable. Undefined if it is reliable.
 *
 * WAITAOF exists since Redis 7.2. With `appendfsync everysec`, Redis 7.4 and Valkey 8.0, 8.1, 9.0 and 9.1 answer as soon as the
 * write is in the file, up to a second before it is synced. Both got this bug from redis/redis#12622; redis/redis#13793 fixed it in
 * Redis 8.0. With a slowed fsync and a power cut, Valkey 8.0.1 lost writes that it had confirmed. A server is not trusted unless it
 * is known to be reliable.
 */
export const distrust = (server: "redis" | "valkey", version: string): string | undefined => {
  const [major = NaN, minor = NaN] = version.split(".").map(Number);
  const name = `${server === "redis" ? "Redis" : "Valkey"} ${version}`;
  if (Number.isNaN(major) || Number.isNaN(minor)) return "the server's version is unknown";
  if (server === "valkey") return `WAITAOF of ${name} may answer before the sync (redis/redis#13793)`;
  if (major >= 8 || (major === 7 && minor === 2)) return undefined;
  return major === 7 && minor > 2
    ? `WAITAOF of ${name} may answer before the sync (redis/redis#13793)`
    : `${name} has no WAITAOF`;
};
