/** The tabs of the race: three ways to buy, the one without any, and the buyer who cannot pay. */
export const raceWays = ["none", "setnx", "optimistic", "lock", "poor"] as const;
export type RaceWay = (typeof raceWays)[number];

export const isRaceWay = (text: unknown): text is RaceWay => raceWays.some((way) => way === text);
