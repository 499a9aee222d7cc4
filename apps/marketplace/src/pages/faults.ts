import type { FaultView } from "../faults.js";
import { html, type Html, mark, safe } from "./html.js";
import { clock, csrfField, text } from "./parts.js";

const state = ({ isRunning, secondsLeft, outcome }: FaultView): Html =>
  isRunning
    ? html`<p class="fault-state"><span class="chip held">under way</span> healed within ${secondsLeft} s</p>`
    : outcome === null
      ? html`<p class="fault-state fact">Not tried yet.</p>`
      : html`<p class="fault-state">${mark(outcome.isGood)} <span>${clock(outcome.at)} ${outcome.text}</span></p>`;

/** The state of each fault, by the id of its element. */
export const faultParts = (faults: readonly FaultView[]): [id: string, content: string][] =>
  faults.map((fault) => [`fault-${fault.name}`, text(state(fault))]);

export const faultsPage = (faults: readonly FaultView[], csrf: string): Html =>
  html`<section class="intro">
      <h1>Break something</h1>
      <p class="lead">
        Each button does real harm to a running process, and says which promise that puts to the test. Everything heals
        by itself. The bar at the foot of the page keeps counting money and items meanwhile.
      </p>
    </section>
    ${
      faults.length === 0
        ? html`<p class="aside">
            Switched off, since this shop runs in a Redis that is not its own (<code>--redis</code>).
          </p>`
        : html`<ul class="faults">
            ${faults.map(
              (fault) =>
                html`<li class="panel">
                  <h2>${fault.title}</h2>
                  <p><span class="label">Promise</span> ${fault.promise}</p>
                  <div id="fault-${fault.name}">${safe(text(state(fault)))}</div>
                  <form method="post" action="/faults">
                    ${csrfField(csrf)}
                    <button name="fault" value="${fault.name}" class="button">${fault.title}</button>
                  </form>
                </li>`,
            )}
          </ul>`
    }`;
