import type { World } from "./index.js";

/** Sellers that answer slowly. */
export const slowSellers: ReadonlySet<string> = new Set(["u5", "u6", "u7"]);
/** A seller that wants to be paid outside of the shop. */
export const fraudster = "u8";

const sellersShown = 4;
const buyersShown = 8;

/** The dozen people that a visitor can play: buyers from rich to poor, and some sellers. */
export const personas = ({ users }: World): { id: string; role: string }[] => {
  const sellers = users.filter(({ isSeller }) => isSeller).slice(0, sellersShown);
  const buyers = users.filter(({ isSeller }) => !isSeller).sort((a, b) => b.funds - a.funds);
  const step = Math.floor((buyers.length - 1) / (buyersShown - 1));
  const spread = Array.from({ length: buyersShown }, (_, n) => buyers[n * step]).filter((user) => user !== undefined);
  return [
    ...spread.map(({ id }, index) => ({
      id,
      role: index === 0 ? "rich buyer" : index === buyersShown - 1 ? "poor buyer" : "buyer",
    })),
    ...sellers.map(({ id }) => ({ id, role: "seller" })),
  ];
};
