// The kept costs, and the load of a mix of operations that follows from them.

/** Per operation. */
export interface Cost {
  /** Sent by the clients. */
  readonly commands: number;
  /** Run by scripts, in addition. */
  readonly innerCommands: number;
  /** Received and sent by the server, without the headers of TCP and IP. */
  readonly bytesIn: number;
  readonly bytesOut: number;
  /** CPU time of the server process, microseconds. */
  readonly cpuMicros: number;
}

interface Named {
  readonly package: string;
  readonly name: string;
  readonly about: string;
}
export interface OperationCost extends Named, Cost {
  /** On a Cluster of three masters; undefined where the operation is not measured there. */
  readonly commandsOnCluster?: number;
}
/** Memory and keys of the server for each object. */
export interface StoredCost extends Named {
  readonly bytes: number;
  readonly keys: number;
}
export interface IdleCost extends Named {
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

/** The name by which mixes and examples refer to a cost. */
export const fullName = (one: Pick<Named, "package" | "name">): string => `${one.package}: ${one.name}`;

/** The cost with a name. @throws {RangeError} there is none. */
export const costNamed = <One extends Named>(costs: readonly One[], name: string): One => {
  const found = costs.find((one) => fullName(one) === name);
  if (found) return found;
  throw new RangeError(`No operation is named "${name}". There are:\n  ${costs.map(fullName).join("\n  ")}`);
};

/** Operations a second, by the full names of the operations. */
export type Mix = Readonly<Record<string, number>>;

/** Per second. An operation that is not measured on a Cluster counts as on a single server. */
export type Load = Cost & { readonly commandsOnCluster: number };

/**
 * The sum of the costs of all operations in a mix. What calls share when they start together is not in it, unless the named
 * operation is measured that way.
 *
 * @throws {RangeError} a name is of no operation.
 */
export const loadOf = ({ operations }: Pick<Costs, "operations">, mix: Mix): Load => {
  const load = { commands: 0, innerCommands: 0, bytesIn: 0, bytesOut: 0, cpuMicros: 0, commandsOnCluster: 0 };
  for (const [name, perSecond] of Object.entries(mix)) {
    const found = costNamed(operations, name);
    const cost: Load = { ...found, commandsOnCluster: found.commandsOnCluster ?? found.commands };
    for (const part of Object.keys(load) as (keyof Load)[]) load[part] += cost[part] * perSecond;
  }
  return load;
};
