/** Rules of our own, for oxlint (see `.oxlintrc.json`). Their nodes are those of ESTree. */

const mostLines = 300;

/**
 * @typedef {{ type: string, loc: { start: { line: number }, end: { line: number } } }} Node
 * @typedef {{ report(problem: { node: Node, message: string }): void, sourceCode: { getText(node: Node): string } }} Context
 */

const classLines = {
  /** @param {Context} context */
  create(context) {
    const check = (/** @type {Node & { id: Node | null }} */ node) => {
      const lines = node.loc.end.line - node.loc.start.line + 1;
      if (lines > mostLines)
        context.report({
          node: node.id ?? node,
          message: `This class has ${lines} lines; the limit is ${mostLines}.`,
        });
    };
    return { ClassDeclaration: check, ClassExpression: check };
  },
};

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

export default { meta: { name: "kit" }, rules: { "class-lines": classLines, "no-kit-error-cast": noKitErrorCast } };
