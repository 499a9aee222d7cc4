export declare const withGuards: (lua: string) => string;
export declare const withoutComments: (lua: string) => string;
export declare const namesOfLibraries: (folders: readonly string[]) => Set<string>;
export declare const shortened: (lua: string, kept: ReadonlySet<string>) => string;
