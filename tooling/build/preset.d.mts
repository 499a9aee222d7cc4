import type { Options } from "tsup";
export declare const library: (sharedParts?: readonly string[]) => Options[];
export declare const application: (entry: string[] | Record<string, string>) => Options;
export declare const entriesOf: (parent: string, files: Record<string, string>) => Record<string, string>;
