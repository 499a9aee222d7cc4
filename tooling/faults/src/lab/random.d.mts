export declare const seeded: (seed: number) => () => number;
