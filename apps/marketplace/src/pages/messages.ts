import { html, type Html } from "./html.js";
import { clock, count, csrfField } from "./parts.js";

export interface Conversation {
  readonly href: string;
  readonly name: string;
  readonly unread: number;
  readonly last: { readonly from: string; readonly body: string; readonly at: number } | null;
}

export interface MessagesView {
  readonly conversations: readonly Conversation[];
  readonly guild: string | null;
  readonly contacts: readonly { readonly id: string; readonly text: string }[];
  readonly csrf: string;
  readonly id: string;
}

export const messagesPage = ({ conversations, guild, contacts, csrf, id }: MessagesView): Html =>
  html`<section class="intro">
      <h1>Messages</h1>
      <p class="lead">
        Every order has a chat of buyer, seller and support. Besides, you may write to
        ${guild === null ? "people you wrote with lately" : html`members of the <b>${guild}</b>, and to people you wrote with lately`}.
      </p>
    </section>
    <div class="messages">
      <section class="panel" aria-labelledby="new-title">
        <h2 id="new-title">New message</h2>
        <form method="post" action="/messages/send" class="compose">
          ${csrfField(csrf)} <input type="hidden" name="id" value="${id}" />
          <label for="to">To</label>
          <div class="combo">
            <input
              id="to"
              name="to"
              required
              maxlength="80"
              autocomplete="off"
              placeholder="Start typing a name"
              data-suggest="/messages/suggest"
              dir="auto"
            />
          </div>
          ${
            contacts.length === 0
              ? ""
              : html`<p class="hint">
                  Lately: ${contacts.slice(0, 5).map(({ text }, n) => html`${n > 0 ? " · " : ""}<bdi>${text}</bdi>`)}
                </p>`
          }
          <label for="text">Message</label>
          <textarea id="text" name="text" required maxlength="2000" rows="3" dir="auto"></textarea>
          <button class="button primary">Send</button>
        </form>
      </section>
      <section aria-labelledby="list-title">
        <h2 id="list-title">Your chats</h2>
        ${
          conversations.length === 0
            ? html`<p class="empty">None yet. Buy something, or write to somebody.</p>`
            : html`<ul class="conversations">
                ${conversations.map(
                  ({ href, name, unread, last }) =>
                    html`<li>
                      <a href="${href}"
                        ><span class="conversation-name"
                          ><bdi>${name}</bdi
                          >${unread > 0 ? html`<span class="badge">${count(unread)}<span class="away"> unread</span></span>` : ""}</span
                        >
                        ${
                          last === null
                            ? ""
                            : html`<span class="last"
                                ><span class="words"><bdi>${last.from}</bdi>: <bdi>${last.body}</bdi></span
                                >${clock(last.at)}</span
                              >`
                        }</a
                      >
                    </li>`,
                )}
              </ul>`
        }
      </section>
    </div>`;

export const conversationPage = (name: string, chat: Html): Html =>
  html`<section class="intro">
      <p class="label"><a href="/messages">Messages</a></p>
      <h1><bdi>${name}</bdi></h1>
    </section>
    <section class="panel">${chat}</section>`;
