// How `changeset version` writes a changelog: what a user sees, without the hashes of commits, which the tag has. The
// packages of kit that were updated with this one stand in one line.

/**
 * @typedef {{ name: string, newVersion: string }} Updated
 * @type {{
 *   getReleaseLine: (changeset: { summary: string }) => Promise<string>,
 *   getDependencyReleaseLine: (changesets: unknown, updated: Updated[]) => Promise<string>,
 * }}
 */
const changelog = {
  getReleaseLine: async ({ summary }) => `- ${summary.trim().replace(/\n(?=[^\n])/g, "\n  ")}`,
  getDependencyReleaseLine: async (_changesets, updated) =>
    updated.length === 0
      ? ""
      : `- Works with ${updated.map(({ name, newVersion }) => `\`${name}\` ${newVersion}`).join(", ")}.`,
};

module.exports = { default: changelog };
