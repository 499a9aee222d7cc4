/**
 * The servers of a run.
 *
 * - `kept`: one server that loses nothing that it acknowledged; the guarded resource is on it, too
 * - `lost`: the server loses data, so the resource is on another one
 * - `shifted`: as `lost`, and the server's clock is made to jump
 * - `failover`: a master with two replicas, without files, and Sentinels; workers reach them without a proxy
 * - `cluster`: a Cluster of masters with a replica each, without files
 * - `edge`: no workers; single calls against foreign data in Redis
 */
export type Setting = "kept" | "lost" | "shifted" | "failover" | "cluster" | "edge";
