import type { Content, ContentPart, FileChange } from "@tare/messages";
import { sliceText } from "@tare/messages/internal";
import { changedLines, counted, formatCount, partName } from "../format.ts";
import type { Store } from "@tare/session";
import type { AgentSession } from "../sessions/agent_session.ts";
import { numbered } from "../sessions/event_log.ts";
import type { SessionEvent } from "../sessions/session_types.ts";
import {
  type EntryOf,
  shortArguments,
  type TranscriptEntry,
  TranscriptReducer,
  updateEntries,
} from "../transcript.ts";
import MarkdownIt, { type Token } from "markdown-it";

export interface Shared {
  readonly title: string;
  readonly model: string;
  /** In milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** Without instructions. */
  readonly entries: readonly TranscriptEntry[];
}

const SHARED_EVENTS: readonly SessionEvent["type"][] = [
  "message_added",
  "turn_start",
  "user_message",
  "assistant_message",
  "tool_call",
  "tool_result",
  "turn_end",
];

/** Returns the ended turns of a session. @throws {StoreError} */
export async function sharedOf(
  { id, title, row: { createdAtMs }, settings: { model }, runningAfter = Infinity }: AgentSession,
  store: Store,
): Promise<Shared> {
  const stored = await store.readEvents(id, { types: SHARED_EVENTS });
  const reducer = new TranscriptReducer();
  const entries: TranscriptEntry[] = [];
  for (const { number, event } of numbered(stored)) {
    if (number <= runningAfter) updateEntries(entries, reducer.apply(event));
  }
  return { title, model, createdAtMs, entries };
}

/** Visible characters of a collapsed text. */
const LONGEST = 20_000;

/** Returns a session as one inert HTML file, and its Content-Security-Policy. */
export async function sharePage(
  shared: Shared,
): Promise<{ readonly html: string; readonly policy: string }> {
  const { title, model, createdAtMs, entries } = shared;
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(STYLE));
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${btoa(String.fromCharCode(...new Uint8Array(hash)))}'`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const day = new Date(createdAtMs).toISOString().slice(0, 10);
  const name = escapeHtml(title || `Session of ${day}`);
  const html = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escapeHtml(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${name}</title>
<style>${STYLE}</style>
</head>
<body>
<header>
<h1><bdi>${name}</bdi></h1>
<p><bdi>${escapeHtml(model)}</bdi> · <time datetime="${day}">${day}</time></p>
<p class="note">${NOTE}</p>
</header>
<main>
${entries.map(entryHtml).filter((html) => html !== "").join("\n")}
</main>
</body>
</html>
`;
  return { html, policy };
}

const NOTE =
  "A conversation with an agent: all messages, and the arguments and results of its tools, such as " +
  "parts of files, output of commands, names and addresses. Only the agent's instructions were removed. " +
  "Sharing this file shares all of it.";

function entryHtml(entry: TranscriptEntry): string {
  switch (entry.kind) {
    case "user":
      return `<article class="user" aria-label="User">${partsOf(entry.content)}</article>`;
    case "reply": {
      const thought = entry.reasoning ? folded("Reasoning", entry.reasoning) : "";
      return `<article class="reply" aria-label="Agent">${thought}${markdownHtml(entry.text)}</article>`;
    }
    case "call":
      return entry.parent === undefined ? callHtml(entry) : "";
    case "instructions":
      return folded("Instructions", entry.text);
    default:
      return "";
  }
}

function callHtml({ name, arguments: text, result }: EntryOf<"call">): string {
  const given = result?.change ? diffOf(result.change) : pre("Arguments", text);
  const images = result?.images?.map((url) => partOf({ type: "image_url", image_url: { url } })) ?? [];
  return `<details class="call"><summary><b><bdi>${escapeHtml(name)}</bdi></b> <bdi>${
    escapeHtml(shortArguments(text, 120))
  }</bdi></summary>${given}${result ? pre("Result", result.content) : ""}${images.join("")}</details>`;
}

function diffOf(change: FileChange): string {
  const { path, added, removed } = change;
  const { lines, rest } = changedLines(change);
  const spans = lines.map(({ kind, text }) =>
    `<span${kind === undefined ? "" : ` class="${kind}"`}>${escapeHtml(text)}\n</span>`
  );
  return `<p><bdi>${escapeHtml(path)}</bdi>: ${counted(added, "line")} added, ${
    formatCount(removed)
  } removed</p><pre class="diff" tabindex="0">${spans.join("")}</pre>${rest ? `<p>and ${rest}</p>` : ""}`;
}

function folded(label: string, text: string): string {
  return `<details><summary>${label}</summary>${pre(label, text)}</details>`;
}

function pre(label: string, text: string): string {
  const more = text.length - LONGEST;
  const rest = more > 0 ? `<p>and ${more} more characters</p>` : "";
  return `<pre tabindex="0" role="group" aria-label="${label}" dir="auto">${
    escapeHtml(sliceText(text, 0, LONGEST))
  }</pre>${rest}`;
}

function partsOf(content: Content): string {
  if (typeof content === "string") return textHtml(content);
  return content.map(partOf).join("");
}

function partOf(part: ContentPart): string {
  switch (part.type) {
    case "text":
      return textHtml(part.text);
    case "refusal":
      return textHtml(part.refusal);
    case "image_url":
      return /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/.test(part.image_url.url)
        ? `<img src="${part.image_url.url}" alt="Attached image">`
        : textHtml("[image]");
    case "file":
      return textHtml(`[file ${part.file.filename ?? ""}]`);
    default:
      return textHtml(`[${partName(part)}]`);
  }
}

function textHtml(text: string): string {
  return text.length > LONGEST
    ? folded("A long text", text)
    : `<p class="plain" dir="auto">${escapeHtml(text)}</p>`;
}

const STYLE = `
:root{color-scheme:light dark;--paper:#f8f9f8;--raised:#fff;--sunken:#eef1ef;--line:#d9dedb;--ink:#17201d;--soft:#56625d;--accent:#0b6660;--added:#d8efdf;--removed:#f8ded7}
@media (prefers-color-scheme:dark){:root{--paper:#121614;--raised:#1a201d;--sunken:#202724;--line:#333d38;--ink:#e6ebe8;--soft:#a0ada7;--accent:#6cc7bd;--added:#16382a;--removed:#48231c}}
*{box-sizing:border-box}
body{max-width:48rem;margin:0 auto;padding:1rem;font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.1rem;margin:1.2em 0 .4em}
p{margin:.5em 0}
header{border-bottom:1px solid var(--line);margin-bottom:1rem;color:var(--soft)}
header h1{color:var(--ink)}
.note{font-size:.875rem}
.user{margin:1.5rem 0 1rem auto;width:fit-content;max-width:90%;padding:.4rem .9rem;border-radius:.7rem;background:var(--sunken)}
.plain{white-space:pre-wrap}
.reply{margin:1rem 0}
details{margin:.4rem 0;padding:.2rem .7rem;border:1px solid var(--line);border-radius:.4rem;background:var(--raised);font-size:.875rem}
summary{cursor:pointer;color:var(--soft);overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
summary b{color:var(--ink)}
pre,code{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.8125rem}
code{background:var(--sunken);padding:.1em .3em;border-radius:.2rem}
pre{max-height:30rem;overflow:auto;margin:.5rem 0;padding:.5rem .7rem;border-radius:.4rem;background:var(--sunken);white-space:pre-wrap}
pre code{padding:0}
.diff{white-space:pre}
.diff span{display:block;tab-size:4;unicode-bidi:isolate}
.added{background:var(--added)}
.removed{background:var(--removed)}
.hunk{color:var(--soft)}
img{max-width:100%;border-radius:.4rem}
blockquote{margin:.5rem 0;padding-left:.9rem;border-left:3px solid var(--line);color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse}
th,td{padding:.25rem .6rem;border:1px solid var(--line);text-align:left;vertical-align:top}
a{color:var(--accent)}
@media print{details{break-inside:avoid}pre{max-height:none}}
`;

/** In UTF-16 code units: parsing blocks other requests. */
const LONGEST_MARKDOWN = 100_000;

const markdown = new MarkdownIt({ html: false, linkify: true, typographer: false });
markdown.validateLink = (address) => /^(https?:\/\/|mailto:)/i.test(address);
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
const { rules } = markdown.renderer;
const { escapeHtml } = markdown.utils;
// One level below the file's own: skipped levels mislead screen readers.
rules.heading_open = () => "<h2>";
rules.heading_close = () => "</h2>\n";
rules.fence = rules.code_block = (tokens, at) =>
  `<pre tabindex="0"><code>${escapeHtml(tokens[at]!.content)}</code></pre>\n`;
rules.table_open = () => '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>\n';
rules.table_close = () => "</table></div>\n";
// The defaults have inline styles, which the policy forbids.
rules.th_open = () => '<th scope="col">';
rules.td_open = () => "<td>";
rules.link_open = (tokens, at) => linkTo(tokens[at]!, "href");
// Fetching an image would notify its server.
rules.image = (tokens, at) =>
  `${linkTo(tokens[at]!, "src")}${escapeHtml(`[image: ${tokens[at]!.content}]`)}</a>`;

/** Escapes tags, turns images into links, and links only to the web and mail. */
export function markdownHtml(text: string): string {
  return text.length > LONGEST_MARKDOWN
    ? `<p class="plain">${escapeHtml(text)}</p>`
    : markdown.render(text.toWellFormed()).trim();
}

function linkTo(token: Token, name: string): string {
  return `<a href="${escapeHtml(String(token.attrGet(name)))}" rel="noopener noreferrer nofollow">`;
}
