// Synthetic geography: forty countries, each with blocks of addresses that belong to nobody. 240.0.0.0/4 is reserved
// for the future and 2001:db8::/32 for documentation, so no address in these logs belongs to a real network.
import { seedOf } from "./random.js";

const codes =
  "DE FR GB US JP BR IN CN ES IT NL PL SE NO FI DK CZ AT CH PT GR TR UA IL EG MA ZA NG KE AR CL MX CA AU NZ KR VN TH ID PH".split(
    " ",
  );

/** The relative number of visitors from each country: many from the first, few from the last. */
const weights = codes.map((_, index) => Math.round(100 / (1 + index / 4)));
const sum = weights.reduce((total, weight) => total + weight, 0);

export const countryBlocks = (): { network: string; place: { country: string } }[] => [
  ...codes.map((country, index) => ({ network: `240.${index}.0.0/16`, place: { country } })),
  ...codes.map((country, index) => ({ network: `2001:db8:${index.toString(16)}::/48`, place: { country } })),
];

/** The index of the country for a number, spread by weight. */
const countryIndex = (number: number): number => {
  let left = number % sum;
  for (const [index, weight] of weights.entries()) {
    if (left < weight) return index;
    left -= weight;
  }
  return 0;
};

/** The address of a visitor, always the same. One visitor in sixteen has IPv6. */
export const addressOf = (who: string): string => {
  const number = seedOf(who);
  const index = countryIndex(number >>> 4);
  return number % 16 === 0
    ? `2001:db8:${index.toString(16)}::${(number >>> 16).toString(16)}`
    : `240.${index}.${(number >>> 8) & 255}.${(number >>> 16) & 255}`;
};
