// Checks the version of Node, then loads the rest. Old versions of Node must be able to parse this file.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > 20 || (major === 20 && minor >= 19)) {
  void import("./main.mjs").then(({ main }) => main(process.argv.slice(2)));
} else {
  process.stderr.write(
    `kit needs Node 20.19 or newer; this is ${process.version} (${process.execPath}).\n` +
      "Install a newer Node from https://nodejs.org or with your version manager, then run the command again.\n",
  );
  process.exitCode = 1;
}
