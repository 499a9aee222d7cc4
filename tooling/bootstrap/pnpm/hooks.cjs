// `redlock-universal` declares Node 22 and runs on 20. It is measured against, never shipped, so its word is not taken;
// for everything else `engineStrict` stands.
module.exports = {
  hooks: {
    readPackage: (manifest) => {
      if (manifest.name === "redlock-universal") delete manifest.engines;
      return manifest;
    },
  },
};
