import { dirname } from "node:path";
import { parse } from "yaml";
import { npmLockfiles } from "./supplies.mjs";

/**
 * Problems of a workflow: what GitHub would refuse, commands that this repository does not have, and rights that a job need
 * not have.
 * @param {string} text
 * @param {Readonly<Record<string, string>>} scripts Of the root's package.json.
 * @returns {string[]}
 */
export function workflowProblems(text, scripts) {
  const workflow = parsed(text);
  if (typeof workflow === "string") return [workflow];
  const { name, on = {}, permissions, jobs = {}, concurrency: _, defaults: __, env: ___, ...unknown } = workflow;
  const readsAtMost =
    permissions && Object.entries(permissions).every(([key, right]) => key === "contents" && right === "read");
  return [
    ...Object.keys(unknown).map((key) => `unknown key ${key}`),
    ...(name ? [] : ["has no name"]),
    ...(readsAtMost && typeof permissions === "object" ? [] : ["permissions of the workflow: at most contents: read"]),
    ...(Object.keys(on).includes("pull_request_target") ? ["pull_request_target runs foreign code with rights"] : []),
    ...(Object.keys(jobs).length === 0 ? ["has no jobs"] : []),
    ...pinProblems(text),
    ...inputProblems(text, jobs),
    ...Object.entries(jobs).flatMap(([job, content]) =>
      jobProblems(content, scripts).map((problem) => `${job}: ${problem}`),
    ),
  ];
}

/** @param {string} text @returns {Record<string, any> | string} */
function parsed(text) {
  try {
    return parse(text, { strict: true, uniqueKeys: true });
  } catch (error) {
    return `is no YAML: ${String(error)}`;
  }
}

/** Each action by a whole commit, with its version behind it, which updates read. @param {string} text */
const pinProblems = (text) =>
  [...text.matchAll(/^ *-? *uses: *(\S+)(.*)$/gm)].flatMap(([, action = "", rest = ""]) => {
    if (action.startsWith("./.github/workflows/")) return [];
    if (!/^[\w.-]+\/[\w./-]+@[0-9a-f]{40}$/.test(action)) return [`${action} is not pinned by commit`];
    return /^ # v\d+\.\d+\.\d+$/.test(rest) ? [] : [`${action} has no version beside it`];
  });

const jobKeys = [
  ...["name", "needs", "if", "runs-on", "permissions", "environment", "concurrency", "outputs", "env", "defaults"],
  ...["steps", "timeout-minutes", "strategy", "continue-on-error", "services"],
];
/** Of a job that calls another workflow. */
const callKeys = ["name", "needs", "if", "permissions", "uses", "with", "secrets", "strategy", "concurrency"];

/**
 * The inputs of each action that we use, from its own `action.yml`, by its major: GitHub only warns of an input that an action does
 * not have, and the action runs without it. An update to another major has to bring its inputs here.
 * @type {Record<string, readonly string[]>}
 */
const inputsOf = {
  "actions/checkout@v6": ["fetch-depth", "fetch-tags", "path", "persist-credentials", "ref", "repository", "token"],
  "actions/setup-node@v6": ["cache", "node-version", "node-version-file", "package-manager-cache", "registry-url"],
  "changesets/action@v1": [
    ...["publish", "version", "cwd", "commit", "title", "setupGitUser"],
    ...["createGithubReleases", "commitMode", "branch"],
  ],
};
const stepKeys = ["id", "if", "name", "uses", "run", "with", "env", "shell", "working-directory", "timeout-minutes"];

/** The rights that a job may have to write. @type {Record<string, string>} */
const mayWrite = { contents: "write", "pull-requests": "write", "id-token": "write" };

/**
 * Inputs that an action does not have.
 * @param {string} text
 * @param {Record<string, { steps?: { uses?: string, with?: Record<string, unknown> }[] }>} jobs
 */
function inputProblems(text, jobs) {
  const majors = new Map(
    [...text.matchAll(/uses: *(\S+?)@(\S+) # (v\d+)\./g)].map(([, name, commit, major]) => [
      `${name}@${commit}`,
      `${name}@${major}`,
    ]),
  );
  return Object.values(jobs).flatMap(({ steps = [] }) =>
    steps.flatMap(({ uses = "", with: inputs = {} }) => {
      const action = majors.get(uses);
      if (action === undefined) return [];
      const known = inputsOf[action];
      if (known === undefined) return [`the inputs of ${action} are not known: take them from its action.yml`];
      return Object.keys(inputs)
        .filter((input) => !known.includes(input))
        .map((input) => `${action} has no input ${input}`);
    }),
  );
}

/**
 * @param {Record<string, any>} job
 * @param {Readonly<Record<string, string>>} scripts
 * @returns {string[]}
 */
function jobProblems(job, scripts) {
  if (job["uses"] !== undefined)
    return Object.keys(job)
      .filter((key) => !callKeys.includes(key))
      .map((key) => `unknown key ${key}`);
  /** @type {[string, string][]} */
  const permissions = Object.entries(job["permissions"] ?? {});
  /** @type {Record<string, any>[]} */
  const steps = job["steps"] ?? [];
  const writes = permissions.some(([, right]) => right === "write");
  return [
    ...Object.keys(job)
      .filter((key) => !jobKeys.includes(key))
      .map((key) => `unknown key ${key}`),
    ...(job["runs-on"] ? [] : ["has no runs-on"]),
    ...(job["timeout-minutes"] > 0 ? [] : ["has no timeout-minutes"]),
    ...permissions
      .filter(([key, right]) => right !== "read" && mayWrite[key] !== right)
      .map(([key, right]) => `may not have ${key}: ${right}`),
    ...(steps.length === 0 ? ["has no steps"] : []),
    ...steps.flatMap((step) => stepProblems(step, scripts, writes)),
  ];
}

/**
 * @param {Record<string, any>} step
 * @param {Readonly<Record<string, string>>} scripts
 * @param {boolean} writes
 * @returns {string[]}
 */
function stepProblems(step, scripts, writes) {
  const { uses = "", run = "", with: inputs = {} } = step;
  const commands = [run, ...Object.values(inputs)].join("\n");
  const called = [...commands.matchAll(/\bnpm (?:run ([\w:-]+)|(test)\b)/g)].map(
    ([, script, test]) => script ?? test ?? "",
  );
  const keepsToken = uses.startsWith("actions/checkout@") && inputs["persist-credentials"] !== false;
  return [
    ...Object.keys(step)
      .filter((key) => !stepKeys.includes(key))
      .map((key) => `a step has the unknown key ${key}`),
    ...((uses === "") === (run === "") ? ["a step has neither uses nor run, or both"] : []),
    ...called.filter((script) => !Object.hasOwn(scripts, script)).map((script) => `there is no script ${script}`),
    ...(run.includes("${{") ? ["an expression in a command; give it by env"] : []),
    ...(keepsToken && !writes ? ["checkout keeps the token, which only a job that writes needs"] : []),
  ];
}

const fields = ["markdown", "input", "textarea", "dropdown", "checkboxes"];

/** Problems of an issue form. @param {string} text @returns {string[]} */
export function formProblems(text) {
  const form = parsed(text);
  if (typeof form === "string") return [form];
  /** @type {{ type: string, id?: string, attributes?: { label?: string, value?: string, options?: string[] } }[]} */
  const body = form["body"] ?? [];
  const ids = body.flatMap(({ id }) => (id === undefined ? [] : [id]));
  return [
    ...["name", "description"].filter((key) => !form[key]).map((key) => `has no ${key}`),
    ...Object.keys(form)
      .filter((key) => !["name", "description", "title", "labels", "body"].includes(key))
      .map((key) => `unknown key ${key}`),
    ...(body.some(({ type }) => type !== "markdown") ? [] : ["has no field"]),
    ...[...new Set(ids.filter((id, index) => ids.indexOf(id) !== index))].map((id) => `two fields have the id ${id}`),
    ...body.flatMap(({ type, id = type, attributes = {} }) => {
      if (!fields.includes(type)) return [`there is no field of type ${type}`];
      if (type === "markdown") return attributes.value ? [] : [`${id}: has no value`];
      const { label, options = [] } = attributes;
      return [
        ...(label ? [] : [`${id}: has no label`]),
        ...(["dropdown", "checkboxes"].includes(type) && options.length === 0 ? [`${id}: has no options`] : []),
      ];
    }),
  ];
}

/** Problems of the settings of dependency updates. @param {string} text @returns {string[]} */
export function updateProblems(text) {
  const settings = parsed(text);
  if (typeof settings === "string") return [settings];
  /** @type {{ "package-ecosystem": string, directory?: string, schedule?: { interval?: string } }[]} */
  const updates = settings["updates"] ?? [];
  const wanted = ["github-actions", "npm"];
  const directories = ["/", ...npmLockfiles.map((path) => `/${dirname(path)}`)];
  return [
    ...(settings["version"] === 2 ? [] : ["expected version 2"]),
    ...wanted
      .filter((name) => !updates.some((update) => update["package-ecosystem"] === name))
      .map((name) => `there are no updates of ${name}`),
    ...updates.flatMap(({ "package-ecosystem": name, directory, schedule = {} }) => [
      ...(wanted.includes(name) ? [] : [`there is no ecosystem ${name}`]),
      ...(directories.includes(directory ?? "") ? [] : [`${name}: there is no lockfile in ${directory}`]),
      ...(["daily", "weekly", "monthly", "quarterly"].includes(schedule.interval ?? "")
        ? []
        : [`there is no interval ${schedule.interval}`]),
    ]),
  ];
}

/**
 * The owner of the repository reviews everything. Without an address there is nobody to name.
 * @param {string} text
 * @param {string | undefined} repository
 * @returns {string[]}
 */
export function codeownersProblems(text, repository) {
  const rules = text.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
  if (repository === undefined)
    return rules.length === 0 ? [] : ["CODEOWNERS: names an owner that package.json does not"];
  const wanted = `* @${new URL(repository).pathname.split("/")[1]}`;
  return rules.includes(wanted) ? [] : [`CODEOWNERS: expected the line \`${wanted}\``];
}
