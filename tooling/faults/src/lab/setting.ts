/**
 * The servers of a run.
 *
 * - `kept`: one server that loses nothing that it acknowledged; the guarded resource is on it, too
 * - `lost`: the server loses data, so the resource is on another one
 * - `shifted`: as `lost`, and the server's clock is made to jump
 * - `failover`: a master with two replicas, without files, and Sentinels; workers reach them without a proxy
 * - `cluster`: a Cluster of masters with a replica each, without files
 * - `address`: a master and a replica that change places without a loss, behind one address; the resource is on another one
 * - `resharded`: a Cluster whose slots and nodes move without a loss; the resource is on another server
 */
export type Setting = "kept" | "lost" | "shifted" | "failover" | "cluster" | "address" | "resharded";
