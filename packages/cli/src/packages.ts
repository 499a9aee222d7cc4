import type { PackageDescriptor } from "@kit/core/toolkit";
import { manifest } from "./manifest.js";

/** Stores nothing, so it has no descriptor. */
const board = "board";

/** The packages of the command line, installed or not: the peers in its manifest. */
export const knownPackages: readonly string[] = Object.keys(manifest.peerDependencies)
  .filter((name) => name.startsWith("@kit/"))
  .map((name) => name.slice("@kit/".length))
  .filter((name) => name !== board)
  .toSorted();

/** Not installed, or a version without a descriptor. */
const absences: readonly unknown[] = ["ERR_MODULE_NOT_FOUND", "ERR_PACKAGE_PATH_NOT_EXPORTED"];

/** Loads the descriptor of a package. Undefined if the package is not installed next to the command line. */
export const descriptorOf = async (name: string): Promise<PackageDescriptor | undefined> => {
  try {
    const entry = (await import(`@kit/${name}/descriptor`)) as { readonly descriptor: PackageDescriptor };
    return entry.descriptor;
  } catch (error) {
    if (absences.includes((error as { code?: unknown }).code)) return undefined;
    throw error;
  }
};

/** The descriptors of all packages that are installed, in the order of their names. */
export const installedDescriptors = async (): Promise<readonly PackageDescriptor[]> => {
  const all = await Promise.all(knownPackages.map(descriptorOf));
  return all.filter((one) => one !== undefined);
};
