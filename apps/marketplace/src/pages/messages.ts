import { html, type Html } from "./html.js";
import { clock, count, intro, list, panel, postForm } from "./parts.js";

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

const composer = ({ contacts, csrf, id }: MessagesView): Html =>
  postForm(
    "/messages/send",
    { csrf, id },
    html`<label for="to">To</label>
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
              Recent: ${contacts.slice(0, 5).map(({ text }, n) => html`${n > 0 ? " · " : ""}<bdi>${text}</bdi>`)}
            </p>`
      }
      <label for="text">Message</label>
      <textarea id="text" name="text" required maxlength="2000" rows="3" dir="auto"></textarea>
      <button class="button primary">Send</button>`,
    "compose",
  );

const conversation = ({ href, name, unread, last }: Conversation): Html =>
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
              ><span class="snippet"><bdi>${last.from}</bdi>: <bdi>${last.body}</bdi></span
              >${clock(last.at)}</span
            >`
      }</a
    >
  </li>`;

export const messagesPage = (view: MessagesView): Html =>
  html`${intro(
      "Messages",
      html`Every order has a chat with buyer, seller and support. You can also write to
      ${view.guild === null ? "recent contacts" : html`members of the <b>${view.guild}</b> and recent contacts`}.`,
    )}
    <div class="messages">
      ${panel("New message", composer(view), "", "new-title")}
      <section aria-labelledby="list-title">
        <h2 id="list-title">Your chats</h2>
        ${list("conversations", view.conversations.map(conversation), "No chats yet. Buy something, or send a message.")}
      </section>
    </div>`;

export const conversationPage = (name: string, chat: Html): Html =>
  html`${intro(html`<bdi>${name}</bdi>`, "", html`<a href="/messages">Messages</a>`)}
    <section class="panel">${chat}</section>`;
