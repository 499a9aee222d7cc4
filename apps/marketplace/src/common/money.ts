/** Prices are integer pence from 1 penny to a million pounds. */
const highestPrice = 100_000_000;

const pounds = new Intl.NumberFormat("en-GB", { style: "currency", currency: "GBP" });

/** `£1,234.50` for 123450. */
export const money = (pence: number): string => pounds.format(pence / 100);

/** The content of a price field: `1234.50`. {@link parsePrice} reads it back without a float. */
export const priceField = (pence: number): string =>
  `${Math.trunc(pence / 100)}.${String(pence % 100).padStart(2, "0")}`;

/** The pence of a typed price: `12`, `12.5`, `£1,234.50`; null if that is no price between a penny and a million. */
export const parsePrice = (text: string): number | null => {
  const match = /^£?\s*(\d{1,3}(?:,\d{3})+|\d{1,7})(?:\.(\d{1,2}))?$/.exec(text.trim());
  if (!match) return null;
  const pence = Number(match[1]?.replaceAll(",", "")) * 100 + Number((match[2] ?? "").padEnd(2, "0"));
  return pence >= 1 && pence <= highestPrice ? pence : null;
};

/** Pence as a form or a script carries them; null unless a whole number within bounds. */
export const parsePence = (text: unknown): number | null => {
  if (typeof text !== "string" || !/^[1-9]\d{0,8}$/.test(text)) return null;
  const pence = Number(text);
  return pence <= highestPrice ? pence : null;
};
