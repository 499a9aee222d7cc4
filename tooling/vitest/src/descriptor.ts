import { describe, expect, it } from "vitest";
import { commandsOf } from "./acl.js";
import type { Node } from "./servers.js";

type Form = readonly [command: string, ...args: (string | number)[]];

interface Named {
  readonly options?: readonly { readonly name: string }[] | undefined;
}

/** The part of a package's descriptor that is read here. */
interface Descriptor {
  readonly name: string;
  readonly permissions: {
    readonly tried: (key: string) => readonly Form[];
    readonly asked?: (key: string) => readonly Form[];
  };
  readonly inspectors?: readonly (Named & {
    readonly thing: string;
    readonly keys?: (prefix: string, ...args: string[]) => readonly string[];
  })[];
  readonly commands?: readonly (Named & { readonly path: string })[];
  readonly checks?: readonly { readonly id: string; readonly about: string }[];
}

const repeated = (names: readonly string[]): readonly string[] =>
  names.filter((name, index) => names.indexOf(name) !== index);

/**
 * The tests of a package's descriptor that are the same for all packages. Its commands change nothing and exist on the
 * server, and its names do not collide with those of the command line.
 */
export const describeDescriptor = (
  descriptor: Descriptor,
  redis: { readonly server: { readonly nodes: readonly Node[] }; readonly prefix: string },
): void => {
  describe(`the descriptor of ${descriptor.name}`, () => {
    const { name, permissions, inspectors = [], commands = [], checks = [] } = descriptor;
    const keyOf = (prefix: string): string => `${prefix}:${name}:{nobody's}:key`;
    const textsOf = ([command, ...args]: Form): [string, ...string[]] => [command, ...args.map(String)];

    it("names each command once", () => {
      expect(repeated(commandsOf(permissions))).toEqual([]);
    });

    it("has forms that change nothing, and that the server understands", async () => {
      const [node] = redis.server.nodes;
      const key = keyOf(redis.prefix);
      const before = await node!.call("DBSIZE");
      for (const form of permissions.tried(key)) {
        const error = await node!.call(...textsOf(form)).then(
          () => "",
          (reason: unknown) => String(reason),
        );
        // Some commands fail since their key is missing.
        expect([form, error]).toEqual([
          form,
          expect.not.stringMatching(/wrong number|syntax|unknown|not an? (int|float|valid)/i),
        ]);
        expect([form, await node!.call("EXISTS", key)]).toEqual([form, 0]);
      }
      expect(await node!.call("DBSIZE")).toBe(before);
    });

    it("checks permissions of commands that the server understands", async () => {
      const [node] = redis.server.nodes;
      for (const form of permissions.asked?.(keyOf(redis.prefix)) ?? []) {
        const verdict = await node!.call("ACL", "DRYRUN", "default", ...textsOf(form)).catch(String);
        // ACL DRYRUN exists since Redis 7.0.
        expect([form, verdict]).toEqual([form, expect.stringMatching(/^OK$|unknown subcommand/i)]);
      }
    });

    it("leaves the command line's own names alone, and has each of its own once", () => {
      const options = [...inspectors, ...commands].flatMap((one) => (one.options ?? []).map((option) => option.name));
      for (const taken of ["url", "prefix", "json", "keys", "help"]) expect(options).not.toContain(taken);
      const words = commands.map(({ path }) => path.split(" ")[0]);
      for (const taken of ["doctor", "inspect", "help"]) expect(words).not.toContain(taken);
      const all = [inspectors.map(({ thing }) => thing), commands.map(({ path }) => path), checks.map(({ id }) => id)];
      expect(all.map(repeated)).toEqual([[], [], []]);
    });

    it("gives keys under the prefix, and checks that are named after the package and explained", () => {
      for (const { keys } of inspectors)
        for (const key of keys?.("p", "a", "b", "c") ?? []) expect(key.startsWith(`p:${name}:{`)).toBe(true);
      for (const { id, about } of checks) {
        expect(id).toMatch(new RegExp(`^${name}-[a-z-]+$`));
        expect(id.length).toBeLessThanOrEqual("keys-without-expiry".length);
        expect(about.trim()).not.toBe("");
      }
    });
  });
};

type Given = Readonly<Record<string, string | number | true>>;

/** Calls an inspector as the command line does for these options. */
export const inspectCall = <Client>(redis: Client, prefix: string, options: Given = {}) => ({
  redis,
  prefix,
  text: (name: string): string | undefined => options[name] as string | undefined,
  integer: (name: string): number | undefined => options[name] as number | undefined,
  isSet: (name: string): boolean => options[name] === true,
});

/** Calls a command, and collects its output. */
export const commandCall = <Client>(redis: Client, prefix: string, options: Given = {}) => {
  const stop = new AbortController();
  const written = { reports: [] as object[], lines: [] as object[], notes: [] as string[], bytes: [] as Uint8Array[] };
  const push = <T>(list: T[], one: T): Promise<void> => {
    list.push(one);
    return Promise.resolve();
  };
  return {
    ...inspectCall(redis, prefix, options),
    signal: stop.signal,
    /** Aborts the command, as Ctrl-C does. */
    stop: (): void => stop.abort(),
    written,
    output: {
      report: (report: { readonly data: object }) => push(written.reports, report.data),
      line: (data: object) => push(written.lines, data),
      note: (text: string) => push(written.notes, text),
      bytes: (chunk: Uint8Array) => push(written.bytes, chunk),
    },
  };
};
