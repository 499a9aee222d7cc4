import { money } from "../common/money.js";
import type { PauseResult, PauseWay } from "../race/pause.js";
import { html, type Html, mark } from "./html.js";
import { guestNote, intro, panel, postForm, seconds } from "./parts.js";
import { raceTabs } from "./race.js";

const names: Readonly<Record<PauseWay, string>> = {
  setnx: "SETNX without an owner",
  lock: "Kit lock with fencing token",
};

const scene = ({ way, steps, told, recount, firstOutcome }: PauseResult): Html => {
  const good = recount.owned === 1 && told === 1 && recount.money === recount.openingMoney;
  const headline =
    recount.owned > 1 ? `Sold ${recount.owned} times` : told > 1 ? "Two were told: it is yours" : "Sold once";
  return panel(
    names[way],
    html`<div class="outcome ${good ? "good" : "bad"}">
        <p class="headline">${mark(good)} ${headline}</p>
        <p class="fact">
          ${firstOutcome === "stale-fence" ? "The late write was refused by the fencing token." : "Nothing refused the late write."}
          ${recount.money === recount.openingMoney ? "Money adds up." : `Money: ${money(recount.money)} instead of ${money(recount.openingMoney)}.`}
        </p>
      </div>
      <ol class="steps">
        ${steps.map(({ atMs, text }) => html`<li><span class="at">${seconds(atMs)}</span> <span>${text}</span></li>`)}
      </ol>`,
  );
};

export interface PauseView {
  readonly results: readonly PauseResult[] | null;
  readonly csrf: string;
  readonly isGuestServer: boolean;
}

export const pausePage = ({ results, csrf, isGuestServer }: PauseView): Html => {
  const button = results === null ? "Stop a buyer for two seconds, both ways" : "Once more";
  return html`${intro("A buyer that sleeps past its lock", "A real process is stopped by SIGSTOP after it took the lock and before it writes. Its lock runs out, somebody else buys, and then it goes on. No lock can prevent this; only the thing that is written to can.")}
    ${raceTabs("pause")}
    ${isGuestServer ? guestNote("Races are switched off") : postForm("/race/pause", { csrf }, html`<button class="button primary">${button}</button>`, "start")}
    <div class="pauses" id="result">${results?.map(scene) ?? html`<p class="hint">Nobody was stopped yet.</p>`}</div>`;
};
