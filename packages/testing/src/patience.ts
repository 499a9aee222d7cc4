/**
 * How many times longer than usual this process waits before it fails a test, as `KIT_TESTING_PATIENCE` says: for machines
 * that are slow or busy with others. Read at each use, so that a test can set it.
 */
export const patience = (): number => {
  const factor = Number(process.env["KIT_TESTING_PATIENCE"] ?? "1");
  return factor >= 1 ? factor : 1;
};
