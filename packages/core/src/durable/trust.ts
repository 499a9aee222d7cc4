/**
 * Why the WAITAOF of a server is not reliable; undefined where it is.
 *
 * Redis 7.2 brought it. With `appendfsync everysec` Redis 7.4 and Valkey 8.0, 8.1, 9.0 and 9.1 answer as soon as the write is
 * in the file, up to a second before it is synced: redis/redis#12622 brought that into both, redis/redis#13793 mended it in
 * Redis 8.0. With a slowed fsync and a power cut, writes were lost that Valkey 8.0.1 had confirmed. A server that is not known
 * to be reliable is not trusted.
 */
export const distrust = (server: "redis" | "valkey", version: string): string | undefined => {
  const [major = NaN, minor = NaN] = version.split(".").map(Number);
  const name = `${server === "redis" ? "Redis" : "Valkey"} ${version}`;
  if (Number.isNaN(major) || Number.isNaN(minor)) return "its version is not known";
  if (server === "valkey") return `the WAITAOF of ${name} may answer before the sync (redis/redis#13793)`;
  if (major >= 8 || (major === 7 && minor === 2)) return undefined;
  return major === 7 && minor > 2
    ? `the WAITAOF of ${name} may answer before the sync (redis/redis#13793)`
    : `${name} has no WAITAOF`;
};
