export declare const clock: () => number;
