export { durable, waitForSync } from "./durable.js";
export { persistenceReport } from "./persistence.js";
export { replicaReads } from "./replica-reads.js";
export { replicationReport } from "./replication.js";

export type { Durability } from "./confirm.js";
export type { DurableResult, DurableScope } from "./durable.js";
export type { AppendOnlyState, Loss, NodePersistence, SnapshotState } from "./persistence.js";
export type { ReplicaRead, ReplicaReads, ReplicaReadsOptions } from "./replica-reads.js";
export type { AttachedReplica, NodeReplication } from "./replication.js";
export type { ReportOptions } from "./survey.js";
export type { DurabilityOptions } from "./options.js";
