// Lets Node run a program in TypeScript, with the decorators that Nest needs: `node --import ./typescript.mjs nest.ts`.
import { readFile } from "node:fs/promises";
import { register } from "node:module";
import { fileURLToPath } from "node:url";
import { isMainThread } from "node:worker_threads";
import ts from "typescript";

if (isMainThread) register(import.meta.url);

const compilerOptions = {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.ESNext,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
};

/** TypeScript imports a file by the name that it would have as JavaScript. */
export async function resolve(specifier, context, next) {
  const isOurs = context.parentURL?.endsWith(".ts") && /^\.\/.*\.js$/.test(specifier);
  return await next(isOurs ? specifier.replace(/js$/, "ts") : specifier, context);
}

export async function load(url, context, next) {
  if (!url.endsWith(".ts")) return await next(url, context);
  const { outputText } = ts.transpileModule(await readFile(fileURLToPath(url), "utf8"), { compilerOptions });
  return { format: "module", source: outputText, shortCircuit: true };
}
