import { defineScript, type Script } from "@kit/core";
import auditSource from "./audit.lua";
import buySource from "./buy.lua";
import listSource from "./list.lua";
import notifySource from "./notify.lua";
import openSessionSource from "./open-session.lua";
import repriceSource from "./reprice.lua";
import visitSource from "./visit.lua";

/** The result of a purchase. */
export type BuyOutcome =
  | {
      readonly kind: "sold";
      readonly price: number;
      readonly seller: string;
      readonly fence: string;
      readonly repeat: boolean;
      /** How many replicas have confirmed the sale, if `copies` was given. */
      readonly copies?: number;
    }
  | { readonly kind: "not-for-sale" }
  | { readonly kind: "price-changed"; readonly price: number }
  | { readonly kind: "changed" }
  | { readonly kind: "short"; readonly funds: number }
  | { readonly kind: "stale-fence"; readonly fence: string }
  | { readonly kind: "own-item" };

/** The result of a listing. */
export type ListOutcome =
  | { readonly kind: "listed"; readonly price: number; readonly repeat: boolean }
  | { readonly kind: "repriced"; readonly price: number }
  | { readonly kind: "not-yours" }
  | { readonly kind: "changed" }
  | { readonly kind: "stale-fence"; readonly fence: string };

/** One page view of a visitor that has a session. */
export interface Visit {
  /** Empty until the visitor picks a persona. */
  readonly user: string;
  readonly csrf: string;
  /** A message that the last form left for the next page; shown once. */
  readonly notice: string;
  /** Views of the shown item. */
  readonly views: number;
  readonly recent: readonly string[];
}

/** The whole market at one instant. */
export interface Audit {
  readonly openingMoney: number;
  readonly money: number;
  readonly openingItems: number;
  readonly items: number;
  readonly itemsTwice: number;
  readonly inDebt: number;
  readonly sales: number;
  readonly listed: number;
}

const buyKeys = [
  "item",
  "listing",
  "buyer",
  "seller",
  "inventory",
  "market",
  "shelf",
  "ledger",
  "totals",
  "receipt",
  "offers",
] as const;
const buyArgs = [
  "itemId",
  "buyerId",
  "sellerId",
  "price",
  "revision",
  "fencingToken",
  "request",
  "receiptLifeMs",
  "marketLifeMs",
  "ledgerLength",
  "isOffer",
] as const;

export const buy: Script<typeof buyKeys, typeof buyArgs, BuyOutcome> = defineScript({
  name: "shop.buy",
  source: buySource,
  keys: buyKeys,
  args: buyArgs,
  // A repeat returns the result in the receipt.
  idempotent: true,
  reply: (raw): BuyOutcome => {
    const [code, fact = "", seller = "", fence = ""] = raw as [number, string?, string?, string?];
    switch (code) {
      case 1:
      case 2:
        return { kind: "sold", price: Number(fact), seller, fence, repeat: code === 2 };
      case 3:
        return { kind: "not-for-sale" };
      case 4:
        return { kind: "price-changed", price: Number(fact) };
      case 5:
        return { kind: "changed" };
      case 6:
        return { kind: "short", funds: Number(fact) };
      case 7:
        return { kind: "stale-fence", fence: fact };
      default:
        return { kind: "own-item" };
    }
  },
});

const listKeys = ["item", "listing", "inventory", "market", "shelf", "totals", "receipt"] as const;
const listArgs = ["itemId", "sellerId", "price", "revision", "fencingToken", "receiptLifeMs", "marketLifeMs"] as const;

export const list: Script<typeof listKeys, typeof listArgs, ListOutcome> = defineScript({
  name: "shop.list",
  source: listSource,
  keys: listKeys,
  args: listArgs,
  idempotent: true,
  reply: (raw): ListOutcome => {
    const [code, fact = ""] = raw as [number, string?];
    switch (code) {
      case 1:
      case 2:
        return { kind: "listed", price: Number(fact), repeat: code === 2 };
      case 3:
        return { kind: "repriced", price: Number(fact) };
      case 4:
        return { kind: "not-yours" };
      case 5:
        return { kind: "changed" };
      default:
        return { kind: "stale-fence", fence: fact };
    }
  },
});

const openKeys = ["session"] as const;
const openArgs = ["user", "csrf", "lifeMs", "idleMs", "permit"] as const;

export const openSession: Script<typeof openKeys, typeof openArgs, void> = defineScript({
  name: "shop.open-session",
  source: openSessionSource,
  keys: openKeys,
  args: openArgs,
  idempotent: true,
  reply: (): void => undefined,
});

const visitKeys = ["session", "recent", "views"] as const;
const visitArgs = ["itemId", "idleMs", "recentKept", "viewsKept", "viewsLifeMs"] as const;

export const visit: Script<typeof visitKeys, typeof visitArgs, Visit | null> = defineScript({
  name: "shop.visit",
  source: visitSource,
  keys: visitKeys,
  args: visitArgs,
  reply: (raw): Visit | null => {
    const [known, user = "", csrf = "", notice = "", views = "0", recent = []] = raw as [
      number,
      string?,
      string?,
      string?,
      string?,
      string[]?,
    ];
    return known === 1 ? { user, csrf, notice, views: Number(views), recent } : null;
  },
});

const notifyKeys = ["session"] as const;
const notifyArgs = ["notice"] as const;

export const notify: Script<typeof notifyKeys, typeof notifyArgs, boolean> = defineScript({
  name: "shop.notify",
  source: notifySource,
  keys: notifyKeys,
  args: notifyArgs,
  idempotent: true,
  reply: (raw): boolean => raw === 1,
});

const repriceKeys = ["prices"] as const;
const repriceArgs = ["category", "line", "fencingToken", "lifeMs"] as const;

/** Whether the line was written: false for a token older than the newest that the list has seen. */
export const reprice: Script<typeof repriceKeys, typeof repriceArgs, boolean> = defineScript({
  name: "shop.reprice",
  source: repriceSource,
  keys: repriceKeys,
  args: repriceArgs,
  idempotent: true,
  reply: (raw): boolean => raw === 1,
});

const auditKeys = ["totals", "market", "...wallets"] as const;
const auditArgs = ["users"] as const;

export const audit: Script<typeof auditKeys, typeof auditArgs, Audit> = defineScript({
  name: "shop.audit",
  source: auditSource,
  keys: auditKeys,
  args: auditArgs,
  readonly: true,
  reply: (raw): Audit => {
    const [
      openingMoney = 0,
      money = 0,
      openingItems = 0,
      items = 0,
      itemsTwice = 0,
      inDebt = 0,
      sales = 0,
      listed = 0,
    ] = (raw as (string | number)[]).map(Number);
    return { openingMoney, money, openingItems, items, itemsTwice, inDebt, sales, listed };
  },
});
