import type { Connection } from "@kit/core";
import type { CliArgument, CliOption, Inspector, PackageDescriptor } from "@kit/core/toolkit";
import { callOf, lookBy, nameArgument, optionOf } from "./commands.js";
import { type Target, withConnection } from "./connection.js";
import { examine } from "./doctor/index.js";
import { exitCodes, Failure } from "./exit-codes.js";
import { kindsOf, listOf, overviewOf } from "./list.js";
import { manifest } from "./manifest.js";
import { shutdownSignal } from "./shutdown.js";
import { givenUrl } from "./target.js";

type Values = Readonly<Record<string, string | number | boolean | undefined>>;

/** A report for an assistant. */
interface Tool {
  readonly name: string;
  readonly description: string;
  readonly properties: Readonly<Record<string, object>>;
  readonly required: readonly string[];
  readonly run: (values: Values) => Promise<object>;
}

/** The checks that open many connections, or keep a CPU busy. */
const costly = ["throughput", "connection-churn"];

const reportOf = async (target: Target, read: (redis: Connection) => Promise<object>): Promise<object> => {
  let data: object = {};
  await withConnection(target, "kit-mcp", async (redis) => {
    data = await read(redis);
  });
  return data;
};

const propertyOf = ({ about, takes = "flag" }: Pick<CliOption, "about"> & { readonly takes?: string | undefined }) => ({
  ...{ text: { type: "string" }, integer: { type: "integer", minimum: 0 }, flag: { type: "boolean" } }[takes],
  description: about,
});

const argumentsIn = (args: readonly CliArgument[], thing: string): Record<string, object> =>
  Object.fromEntries(
    args.map(({ name, about }) => [name, propertyOf({ about: about || `name of the ${thing}`, takes: "text" })]),
  );

const inspectTool = (target: Target, from: PackageDescriptor, inspector: Inspector): Tool => {
  const { thing, about, args = nameArgument, options = [], look } = inspector;
  return {
    name: `inspect_${thing.replaceAll("-", "_")}`,
    description: `${about} (@kit/${from.name})`,
    properties: {
      ...argumentsIn(args, thing),
      ...Object.fromEntries(options.map((option) => [option.name, propertyOf(option)])),
    },
    required: args.filter(({ count = "one" }) => count !== "optional").map(({ name }) => name),
    run: (values) => {
      const names = args.flatMap(({ name }) => (values[name] === undefined ? [] : [String(values[name])]));
      if (names.includes("")) throw new Failure("A name must be text of 1 to 512 bytes, got 0 bytes", exitCodes.usage);
      const named = Object.fromEntries(options.map((one) => [optionOf(one).attributeName(), values[one.name]]));
      return reportOf(target, async (redis) => {
        const { data, isUnknown = false } = await look(
          callOf(redis, { target, args: names, values: named }, options),
          ...names,
        );
        return { ...data, isUnknown };
      });
    },
  };
};

const toolsOf = (target: Target, descriptors: readonly PackageDescriptor[]): readonly Tool[] => {
  const kinds = kindsOf(descriptors);
  const plurals = kinds.map(({ listed }) => listed.things);
  return [
    ...descriptors.flatMap((from) => (from.inspectors ?? []).map((one) => inspectTool(target, from, one))),
    {
      name: "list",
      description: "all locks, queues, chats and so on with their state, or one kind in detail; scans keys",
      properties: { things: { type: "string", enum: plurals, description: "list only this kind" } },
      required: [],
      run: ({ things }) =>
        reportOf(target, async (redis) => {
          const kind = kinds.find(({ listed }) => listed.things === things);
          if (things !== undefined && !kind)
            throw new Failure(
              `Cannot list ${JSON.stringify(things)}. Choose one of: ${plurals.join()}`,
              exitCodes.usage,
            );
          const look = lookBy(redis, { target, args: [], values: {} });
          const { prefix } = target;
          return (kind ? await listOf(redis, prefix, kind, look) : await overviewOf(redis, prefix, kinds, look)).data;
        }),
    },
    {
      name: "doctor",
      description: `problems of the server and of the data, each with a fix; without the checks ${costly.join(" and ")}`,
      properties: {},
      required: [],
      run: async () => {
        const { prefix } = target;
        const examined = { url: givenUrl(target.url), prefix, isStrict: false, skip: costly, packages: descriptors };
        return { checks: (await examine(examined, () => undefined)).checks };
      },
    },
  ];
};

const sdk = async () => {
  try {
    const [{ Server }, { StdioServerTransport }, types] = await Promise.all([
      import("@modelcontextprotocol/sdk/server/index.js"),
      import("@modelcontextprotocol/sdk/server/stdio.js"),
      import("@modelcontextprotocol/sdk/types.js"),
    ]);
    return { Server, StdioServerTransport, ...types };
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    const name = "@modelcontextprotocol/sdk";
    throw new Failure(`kit mcp needs ${name}. Run: npm install ${name}`, exitCodes.usage);
  }
};

/**
 * Serves the read-only reports to an assistant over stdin and stdout, until stdin ends or a signal arrives. It offers no command of a
 * package, because commands can write.
 */
export const serveReports = async (target: Target, descriptors: readonly PackageDescriptor[]): Promise<void> => {
  const { Server, StdioServerTransport, ListToolsRequestSchema, CallToolRequestSchema } = await sdk();
  const tools = toolsOf(target, descriptors);
  const server = new Server({ name: "kit", version: manifest.version }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: tools.map(({ name, description, properties, required }) => ({
      ...{ name, description, annotations: { readOnlyHint: true, openWorldHint: false } },
      inputSchema: { type: "object" as const, properties: { ...properties }, required: [...required] },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    const tool = tools.find(({ name }) => name === params.name);
    try {
      if (!tool) throw new Failure(`There is no tool ${JSON.stringify(params.name)}`, exitCodes.usage);
      return {
        content: [{ type: "text" as const, text: JSON.stringify(await tool.run((params.arguments ?? {}) as Values)) }],
      };
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      return { isError: true, content: [{ type: "text" as const, text }] };
    }
  });
  const ended = new Promise<void>((resolve) => {
    process.stdin.once("end", resolve);
    shutdownSignal().addEventListener("abort", () => resolve());
  });
  await server.connect(new StdioServerTransport());
  await ended;
  await server.close();
};
