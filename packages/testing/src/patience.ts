/**
 * How many times longer than usual this process waits before it fails a test, by `KIT_TESTING_PATIENCE`: for slow or busy
 * machines. Read at each use, so that a test can set it.
 */
export const patience = (): number => {
  const factor = Number(process.env["KIT_TESTING_PATIENCE"] ?? "1");
  return factor >= 1 ? factor : 1;
};
