/** Rules of our own, for oxlint (see `.oxlintrc.json`). Their nodes are those of ESTree. */

const mostLines = 300;
/** Without comments and blank lines. */
const mostCode = 220;
const mostFields = 12;

/** Classes with more code or fields, each with its numbers of today and the reason. None may grow. @type {Record<string, { code?: number, fields?: number }>} */
const exceptions = {
  // One method for each button of the shop.
  Faults: { code: 269 },
  Market: { code: 241 },
  // The parts of the shop, each named once.
  Shop: { fields: 32 },
  // The parts of one lab. They start and end together.
  Lab: { fields: 16 },
  // The facts of one job. A worker makes a hundred thousand a second, so they are one flat object.
  TakenJob: { fields: 32 },
  // The state of one lease, and of one wait for it, which change together.
  HeldLease: { fields: 14 },
  Waiter: { fields: 14 },
  // The members of an ioredis client, for code that expects one.
  SingleClient: { fields: 15 },
  // The writers of one version, and the state of one download: each is one object in the constructor's text.
  VersionBuilder: { fields: 14 },
  ReceivedFile: { fields: 16 },
  // Wire the parts of a worker and of a queue together.
  Worker: { code: 229, fields: 15 },
  Fetcher: { fields: 23 },
  QueueCommands: { fields: 15 },
  // One more counter than the limit.
  Adoption: { fields: 13 },
  Batcher: { fields: 13 },
  Calls: { fields: 13 },
};

/**
 * @typedef {{ type: string, loc: { start: { line: number }, end: { line: number } } }} Node
 * @typedef {{ type: string, kind?: string, static?: boolean, declare?: boolean, value?: { type: string, params?: readonly Node[] } | null }} Member
 * @typedef {Node & { id: (Node & { name: string }) | null, body: { body: readonly Member[] } }} Class
 * @typedef {{ report(problem: { node: Node, message: string }): void, sourceCode: { getText(node: Node): string } }} Context
 */

/** Calls `check` with each class, and with its exceptions. @type {(check: (node: Class, exception: { code?: number, fields?: number }, report: (message: string) => void, context: Context) => void) => object} */
const ofClasses = (check) => ({
  /** @param {Context} context */
  create(context) {
    const visit = (/** @type {Class} */ node) =>
      check(
        node,
        exceptions[node.id?.name ?? ""] ?? {},
        (message) => context.report({ node: node.id ?? node, message }),
        context,
      );
    return { ClassDeclaration: visit, ClassExpression: visit };
  },
});

const classLines = ofClasses((node, { code: most = mostCode }, report, { sourceCode }) => {
  const lines = node.loc.end.line - node.loc.start.line + 1;
  if (lines > mostLines) report(`This class has ${lines} lines; the limit is ${mostLines}.`);
  const code = sourceCode
    .getText(node)
    .split("\n")
    .filter((line) => !/^\s*(\/[/*]|\*|$)/.test(line)).length;
  if (code > most) report(`This class has ${code} lines of code; the limit is ${most}.`);
});

/** A function is not state: it counts as a method. */
const isField = (/** @type {Member} */ { type, static: isStatic, declare, value }) =>
  type === "PropertyDefinition" && !isStatic && !declare && value?.type !== "ArrowFunctionExpression";

const classFields = ofClasses((node, { fields: most = mostFields }, report) => {
  const { body } = node.body;
  const parameters = body.find(({ kind }) => kind === "constructor")?.value?.params ?? [];
  const fields = body.filter(isField).length + parameters.filter(({ type }) => type === "TSParameterProperty").length;
  if (fields > most) report(`This class has ${fields} fields; the limit is ${most}.`);
});

const noKitErrorCast = {
  /** @param {Context} context */
  create: (context) => ({
    /** @param {Node & { typeAnnotation: Node }} node */
    TSAsExpression(node) {
      if (/(?<!typeof )\bKitError\b/.test(context.sourceCode.getText(node.typeAnnotation)))
        context.report({ node, message: "Whether it is a KitError is known at run time only: ask `instanceof`." });
    },
  }),
};

const sleepMessage = "A test waits for an event, or polls with `eventually()`. Name the reason if neither can be.";

const noSleep = {
  /** @param {Context} context */
  create: (context) => ({
    /** @param {Node} node */
    NewExpression(node) {
      const [, resolve] = /^new Promise\b[^(]*\(\s*\(?\s*(\w+)/.exec(context.sourceCode.getText(node)) ?? [];
      if (resolve && new RegExp(`\\bsetTimeout\\(\\s*${resolve}\\b`).test(context.sourceCode.getText(node)))
        context.report({ node, message: sleepMessage });
    },
    /** @param {Node & { source: { value: string } }} node */
    ImportDeclaration(node) {
      if (node.source.value.endsWith("timers/promises") && context.sourceCode.getText(node).includes("setTimeout"))
        context.report({ node, message: sleepMessage });
    },
  }),
};

export default {
  meta: { name: "kit" },
  rules: {
    "class-lines": classLines,
    "class-fields": classFields,
    "no-kit-error-cast": noKitErrorCast,
    "no-sleep": noSleep,
  },
};
