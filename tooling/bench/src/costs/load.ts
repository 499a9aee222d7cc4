// The load of a mix of operations on the servers, from the measured costs.
import { type Cost, type Costs, fullName } from "./costs.js";

/** Operations a second, by the full names of the operations. */
export type Mix = Readonly<Record<string, number>>;

/** Per second. */
export interface Load extends Cost {
  /** An operation that is not measured there counts as on a single server. */
  readonly commandsOnCluster: number;
}

/**
 * The sum of the costs of all operations in a mix. It is linear: what calls share when they begin together is not in it, unless the named
 * operation is measured that way.
 *
 * @throws {RangeError} a name is of no operation.
 */
export const loadOf = ({ operations }: Pick<Costs, "operations">, mix: Mix): Load => {
  const costOf = (name: string): Load => {
    const found = operations.find((one) => fullName(one) === name);
    if (found) return { ...found, commandsOnCluster: found.commandsOnCluster ?? found.commands };
    const known = operations.map((one) => `  ${fullName(one)}`).join("\n");
    throw new RangeError(`No operation is named "${name}". There are:\n${known}`);
  };
  const parts = Object.entries(mix).map(([name, perSecond]) => ({ cost: costOf(name), perSecond }));
  const sum = (of: keyof Load): number => parts.reduce((all, { cost, perSecond }) => all + cost[of] * perSecond, 0);
  return {
    commands: sum("commands"),
    innerCommands: sum("innerCommands"),
    bytesIn: sum("bytesIn"),
    bytesOut: sum("bytesOut"),
    cpuMicros: sum("cpuMicros"),
    commandsOnCluster: sum("commandsOnCluster"),
  };
};
