/** The kinds of race: without a guard, with one of three guards, and with one poor buyer. */
export const raceWays = ["none", "setnx", "optimistic", "lock", "poor"] as const;
export type RaceWay = (typeof raceWays)[number];

export const isRaceWay = (text: unknown): text is RaceWay => raceWays.some((way) => way === text);
