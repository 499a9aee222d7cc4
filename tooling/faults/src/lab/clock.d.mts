export declare const clockOrigin: number;
export declare const clock: () => number;
