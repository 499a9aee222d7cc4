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
    recount.owned > 1 ? `Sold ${recount.owned} times` : told > 1 ? "Two buyers got a confirmation" : "Sold once";
  return panel(
    names[way],
    html`<div class="outcome ${good ? "good" : "bad"}">
        <p class="headline">${mark(good)} ${headline}</p>
        <p class="fact">
          ${firstOutcome === "stale-fence" ? "The fencing token rejected the late write." : "Nothing rejected the late write."}
          ${recount.money === recount.openingMoney ? "The money is correct." : `Money: ${money(recount.money)} instead of ${money(recount.openingMoney)}.`}
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
  const button = results === null ? "Pause a buyer for two seconds, both ways" : "Run again";
  return html`${intro("A buyer that outlives its lock", "SIGSTOP pauses a real process after it acquires the lock and before it writes. The lock expires, another buyer buys, and the process continues. No lock can prevent the late write. Only the item can reject it.")}
    ${raceTabs("pause")}
    ${isGuestServer ? guestNote("Races are disabled") : postForm("/race/pause", { csrf }, html`<button class="button primary">${button}</button>`, "start")}
    <div class="pauses" id="result">${results?.map(scene) ?? html`<p class="hint">Not run yet.</p>`}</div>`;
};
