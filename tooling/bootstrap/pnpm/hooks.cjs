// `redlock-universal` declares Node 22 and runs on 20. It is measured against, never shipped, so its word is not taken;
// for everything else `engineStrict` stands. So does `cookie`, of fastify's own test client.
module.exports = {
  hooks: {
    readPackage: (manifest) => {
      if (["redlock-universal", "cookie"].includes(manifest.name)) delete manifest.engines;
      return manifest;
    },
  },
};
