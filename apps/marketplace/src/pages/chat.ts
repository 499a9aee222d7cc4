import type { Message } from "@kit/chat";
import { support } from "../orders/orders.js";
import { html, type Html } from "./html.js";
import { clock, postForm } from "./parts.js";

export interface ChatView {
  readonly messages: readonly Message<string>[];
  /** The read position of each member. */
  readonly positions: readonly { readonly member: string; readonly position: number }[];
  readonly me: string;
  readonly nameOf: (user: string) => string;
}

/** The messages, oldest first. The reader's own last one shows which members have seen it; support is a program. */
export const chatLines = ({ messages, positions, me, nameOf }: ChatView): Html => {
  if (messages.length === 0) return html`<p class="empty">No messages yet.</p>`;
  const lastOfMine = messages.findLast(({ from }) => from === me)?.seq;
  const isCut = (messages[0]?.seq ?? 1) > 1;
  return html`${isCut ? html`<p class="hint">Showing the newest ${messages.length} messages.</p>` : ""}
    <ol class="lines">
      ${messages.map(({ seq, from, body, at }) => {
        const seenBy = positions
          .filter(({ member, position }) => member !== me && member !== support && position >= seq)
          .map(({ member }) => nameOf(member));
        return html`<li class="${from === me ? "mine" : "theirs"}">
          <p class="from"><bdi>${from === me ? "You" : nameOf(from)}</bdi> ${clock(at)}</p>
          <p class="body" dir="auto">${body}</p>
          ${
            seq === lastOfMine
              ? html`<p class="seen">
                  ${seenBy.length === 0 ? "Sent" : html`Seen by ${seenBy.map((name, n) => html`${n > 0 ? ", " : ""}<bdi>${name}</bdi>`)}`}
                </p>`
              : ""
          }
        </li>`;
      })}
    </ol>`;
};

export const chatBox = (view: ChatView | null, action: string, csrf: string, id: string): Html =>
  html`<div id="chat" class="chat" tabindex="0" role="log" aria-label="Messages" aria-live="off">
      ${view ? chatLines(view) : ""}
    </div>
    ${postForm(
      action,
      { csrf, id },
      html`<label class="away" for="say">Your message</label>
        <input
          id="say"
          name="text"
          required
          maxlength="2000"
          autocomplete="off"
          placeholder="Write a message"
          dir="auto"
        />
        <button class="button primary">Send</button>`,
      "say",
    )}`;
