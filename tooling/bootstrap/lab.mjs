import { findProgram, pathFolders } from "./repo.mjs";
import { capture } from "./run.mjs";

/** The tools that some faults need, with their Debian packages. Without a tool the lab reports which faults were not run. */
const tools = [
  { program: "cc", packages: ["gcc", "libc6-dev"] },
  { program: "nft", packages: ["nftables"] },
  { program: "ip", packages: ["iproute2"] },
  { program: "logrotate", packages: ["logrotate"] },
];

// The programs that start the tools also search these folders, which even root's PATH may lack.
const systemFolders = ["/usr/sbin", "/sbin"];

/** @param {NodeJS.ProcessEnv} env */
export const missingLabTools = (env) =>
  tools
    .map(({ program }) => program)
    .filter((program) => findProgram([program], [...pathFolders(env), ...systemFolders]) === undefined);

/** Whether the tools can be installed without a prompt: Debian's packages, by root. */
export const canInstallLab = (env = process.env) =>
  process.platform === "linux" && process.getuid?.() === 0 && findProgram(["apt-get"], pathFolders(env)) !== undefined;

/** @param {NodeJS.ProcessEnv} env */
export async function installLab(env) {
  const quiet = { env: { ...env, DEBIAN_FRONTEND: "noninteractive" } };
  const missing = missingLabTools(env);
  const packages = tools.filter(({ program }) => missing.includes(program)).flatMap((tool) => tool.packages);
  const install = ["install", "-y", "-q", "--no-install-recommends", ...packages];
  const { code } = await capture("apt-get", install, quiet);
  if (code === 0) return;
  await capture("apt-get", ["update", "-q"], quiet);
  await capture("apt-get", install, quiet);
}
