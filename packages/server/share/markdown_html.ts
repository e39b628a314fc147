import MarkdownIt, { type Token } from "markdown-it";

/** A longer text stands as it is written: laying it out would keep others waiting. In UTF-16 code units. */
const LONGEST = 100_000;

const ROOM = { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table" };

const markdown = new MarkdownIt({ html: false, linkify: true, typographer: false });
markdown.validateLink = (address) => /^(https?:\/\/|mailto:)/i.test(address);
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
const { rules } = markdown.renderer;
// One level, below the file's own: a text that leaves levels out would mislead those who go by them.
rules.heading_open = () => "<h2>";
rules.heading_close = () => "</h2>\n";
rules.fence = rules.code_block = (tokens, at) =>
  `<pre tabindex="0"><code>${escapeHtml(tokens[at]!.content)}</code></pre>\n`;
rules.table_open = () => `<div${attributes(ROOM)}><table>\n`;
rules.table_close = () => "</table></div>\n";
// Without the styles that the file's policy forbids.
rules.th_open = () => '<th scope="col">';
rules.td_open = () => "<td>";
rules.link_open = (tokens, at) => linkTo(tokens[at]!, "href");
// Fetching a picture would tell its server who reads.
rules.image = (tokens, at) =>
  `${linkTo(tokens[at]!, "src")}${escapeHtml(`[picture: ${tokens[at]!.content}]`)}</a>`;

/**
 * Markdown as HTML, for a file that is read elsewhere: every character is escaped, tags are text, pictures are links, and
 * links lead to the web or are text.
 */
export function markdownHtml(text: string): string {
  const whole = text.toWellFormed();
  return whole.length > LONGEST ? `<p class="plain">${escapeHtml(whole)}</p>` : markdown.render(whole).trim();
}

/** Text as HTML shows it. */
export function escapeHtml(text: string): string {
  return text.toWellFormed().replaceAll(/[&<>"'\0]/g, (char) => ENTITIES[char]!);
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
  "\0": "\ufffd",
};

function linkTo(token: Token, name: string): string {
  return `<a${attributes({ href: String(token.attrGet(name) ?? ""), rel: "noopener noreferrer nofollow" })}>`;
}

function attributes(named: Readonly<Record<string, string>>): string {
  return Object.entries(named).map(([name, value]) => ` ${name}="${escapeHtml(value)}"`).join("");
}
