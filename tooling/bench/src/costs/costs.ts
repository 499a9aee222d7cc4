// The shape of the kept costs.

/** Per operation. */
export interface Cost {
  /** Sent by the clients. */
  readonly commands: number;
  /** Those that scripts ran, in addition. */
  readonly innerCommands: number;
  /** Received and sent by the server, without the headers of TCP and IP. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** CPU time of the server process, microseconds. */
  readonly cpuMicros: number;
}

export interface OperationCost extends Cost {
  readonly package: string;
  readonly name: string;
  readonly about: string;
  /** On a Cluster of three masters; undefined where the operation is not measured there. */
  readonly commandsOnCluster?: number;
}

export interface StoredCost {
  readonly package: string;
  readonly name: string;
  readonly about: string;
  /** Memory of the server for each object. */
  readonly bytes: number;
  readonly keys: number;
}

export interface IdleCost {
  readonly package: string;
  readonly name: string;
  readonly about: string;
  readonly commandsPerHour: number;
  readonly commandsPerHourOnCluster: number;
}

export interface Costs {
  readonly date: string;
  readonly node: string;
  readonly redis: string;
  readonly machine: string;
  readonly operations: readonly OperationCost[];
  readonly stored: readonly StoredCost[];
  readonly idle: readonly IdleCost[];
}

/** The name by which mixes and examples refer to an operation, a stored or an idle object. */
export const fullName = (one: { readonly package: string; readonly name: string }): string =>
  `${one.package}: ${one.name}`;
