/**
 * The surroundings of a run's workers.
 *
 * - `kept`: one server that loses nothing that it acknowledged; the guarded resource lives on it, too
 * - `lost`: the resource lives elsewhere, since the server loses data
 * - `shifted`: as `lost`, and the server's clock is made to jump
 * - `failover`: a master with two replicas, without files, and Sentinels; workers reach them without a proxy
 * - `cluster`: a Cluster of masters with a replica each, without files
 * - `edge`: no workers; single calls against what somebody else left in Redis
 */
export type Setting = "kept" | "lost" | "shifted" | "failover" | "cluster" | "edge";
