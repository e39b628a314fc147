/** Longest text in characters of which the words are told apart: what is longer stands as it is written. */
const LONGEST = 4_000;

/** So deep may quotes, lists and emphasis stand in one another. */
const DEEPEST = 6;

/**
 * Markdown as HTML, for a file that is read elsewhere: every character is escaped, tags are text, pictures are links, and
 * links lead to the web or to nothing. It takes linear time in all but lines of {@linkcode LONGEST} characters.
 */
export function markdownHtml(text: string): string {
  return blocks(text.replaceAll(/\r\n?/g, "\n").split("\n"), 0);
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

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])[ \t]+(?=\S)/;
const COLUMNS = /^[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*:?-+:?[ \t]*\|?[ \t]*$/;

/** What the lines say; `depth` counts what they stand in. */
function blocks(lines: readonly string[], depth: number): string {
  let html = "";
  for (let at = 0; at < lines.length;) {
    const block = blockAt(lines, at, depth);
    html += block.html;
    at = block.next;
  }
  return html;
}

/** A block, and the line behind it. */
interface Read {
  readonly html: string;
  readonly next: number;
}

function blockAt(lines: readonly string[], at: number, depth: number): Read {
  const line = lines[at]!;
  if (line.trim() === "") return { html: "", next: at + 1 };
  const [, fence] = FENCE.exec(line) ?? [];
  if (fence !== undefined) return code(lines, at, fence);
  const [, marks, title = ""] = HEADING.exec(line) ?? [];
  // One level, below the file's own: a text that leaves levels out would mislead those who go by them.
  if (marks) return { html: `<h2>${inline(title.replace(/[ \t]+#+[ \t]*$/, ""))}</h2>`, next: at + 1 };
  if (RULE.test(line)) return { html: "<hr>", next: at + 1 };
  if (depth < DEEPEST && QUOTE.test(line)) {
    const next = endOf(lines, at, (line) => QUOTE.test(line));
    const inner = lines.slice(at, next).map((line) => line.replace(QUOTE, ""));
    return { html: `<blockquote>${blocks(inner, depth + 1)}</blockquote>`, next };
  }
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, at, depth);
  if (isTable(lines, at)) return table(lines, at);
  const next = endOf(lines, at, (line, place) => !startsBlock(lines, line, place));
  return { html: `<p>${inline(lines.slice(at, next).join("\n"))}</p>`, next };
}

/** The first line behind `at` of which `isPart` doesn't hold. */
function endOf(
  lines: readonly string[],
  at: number,
  isPart: (line: string, place: number) => boolean,
): number {
  let next = at + 1;
  while (next < lines.length && isPart(lines[next]!, next)) next++;
  return next;
}

function startsBlock(lines: readonly string[], line: string, at: number): boolean {
  return line.trim() === "" || [FENCE, HEADING, RULE, QUOTE, ITEM].some((start) => start.test(line)) ||
    isTable(lines, at);
}

function code(lines: readonly string[], at: number, fence: string): Read {
  const closes = (line: string) => {
    const mark = line.trim();
    return mark.length >= fence.length && mark === fence.charAt(0).repeat(mark.length);
  };
  const end = endOf(lines, at, (line) => !closes(line));
  const text = lines.slice(at + 1, end).join("\n");
  return { html: `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>`, next: end + 1 };
}

function list(lines: readonly string[], at: number, depth: number): Read {
  const isOrdered = ITEM.exec(lines[at]!)![3] !== undefined;
  const [, , , start = "1"] = ITEM.exec(lines[at]!)!;
  let items = "";
  let next = at;
  for (;;) {
    const [whole, , , number] = ITEM.exec(lines[next] ?? "") ?? [];
    if (whole === undefined || (number !== undefined) !== isOrdered || RULE.test(lines[next]!)) break;
    const end = endOf(lines, next, (line, place) => {
      if (line.trim() === "") return /^[ \t]{2,}\S/.test(lines[place + 1] ?? "");
      return /^[ \t]{2,}/.test(line) || !startsBlock(lines, line, place);
    });
    const [first = "", ...rest] = lines.slice(next, end);
    const inner = [first.slice(whole.length), ...rest.map((line) => dedent(line, whole.length))];
    items += `<li>${tight(blocks(inner, depth + 1))}</li>`;
    next = end;
    // Items may stand apart.
    if (lines[next]?.trim() === "" && ITEM.test(lines[next + 1] ?? "")) next++;
  }
  const from = isOrdered && start !== "1" ? ` start="${Number(start)}"` : "";
  return { html: isOrdered ? `<ol${from}>${items}</ol>` : `<ul>${items}</ul>`, next };
}

/** A line without at most so much of the space before it. */
function dedent(line: string, most: number): string {
  const spaces = /^[ \t]*/.exec(line)![0].length;
  return line.slice(Math.min(spaces, most));
}

/** An item's only paragraph needs none. */
function tight(html: string): string {
  const isOnly = html.startsWith("<p>") && html.indexOf("<p>", 1) < 0;
  return isOnly ? html.slice("<p>".length).replace("</p>", "") : html;
}

function isTable(lines: readonly string[], at: number): boolean {
  const [head = "", columns = ""] = lines.slice(at, at + 2);
  return head.includes("|") && columns.includes("-") && columns.length <= LONGEST && COLUMNS.test(columns) &&
    cellsOf(head).length === cellsOf(columns).length;
}

function cellsOf(line: string): readonly string[] {
  return line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "").split(/(?<!\\)\|/).map((cell) =>
    cell.trim().replaceAll("\\|", "|")
  );
}

function table(lines: readonly string[], at: number): Read {
  const row = (line: string, tag: string) =>
    `<tr>${cellsOf(line).map((cell) => `<${tag}>${inline(cell)}</${tag.split(" ", 1)[0]}>`).join("")}</tr>`;
  const next = endOf(lines, at + 1, (line) => line.includes("|"));
  const rows = lines.slice(at + 2, next).map((line) => row(line, "td")).join("");
  const head = row(lines[at]!, 'th scope="col"');
  const html =
    `<div class="scroll" tabindex="0" role="group" aria-label="Table"><table><thead>${head}</thead><tbody>${rows}</tbody></table></div>`;
  return { html, next };
}

const LINK = /(!?)\[([^[\]\n]{0,1000})\]\(<?([^()\s<>]{0,2000})>?(?:[ \t]+"[^"\n]{0,200}")?\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`*]{0,2000}[^\s<>"'`*.,;:!?)\]]/y;
const MARKS: readonly (readonly [mark: string, tag: string])[] = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["*", "em"],
  ["_", "em"],
];

/** What a text says with its emphasis, code and links. */
function inline(text: string, depth = 0): string {
  if (text.length > LONGEST || depth > DEEPEST) return escapeHtml(text);
  let html = "";
  let from = 0;
  const put = (at: number, { html: more, next }: Read) => {
    html += escapeHtml(text.slice(from, at)) + more;
    from = next;
    return next;
  };
  for (let at = 0; at < text.length;) {
    const found = inlineAt(text, at, depth);
    at = found ? put(at, found) : at + runAt(text, at);
  }
  return html + escapeHtml(text.slice(from));
}

/** How many characters stand together that mean nothing: a run of backticks that nothing closes is one. */
function runAt(text: string, at: number): number {
  let length = 1;
  if (text[at] === "`") { while (text[at + length] === "`") length++; }
  return length;
}

function inlineAt(text: string, at: number, depth: number): Read | undefined {
  switch (text[at]) {
    case "\\":
      return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")
        ? { html: escapeHtml(text[at + 1]!), next: at + 2 }
        : undefined;
    case "`": {
      const length = runAt(text, at);
      for (let end = text.indexOf("`", at + length); end >= 0; end = text.indexOf("`", end)) {
        const run = runAt(text, end);
        if (run === length) {
          return { html: `<code>${escapeHtml(text.slice(at + length, end))}</code>`, next: end + run };
        }
        end += run;
      }
      return undefined;
    }
    case "!":
    case "[": {
      LINK.lastIndex = at;
      const [whole, picture, words = "", address = ""] = LINK.exec(text) ?? [];
      if (whole === undefined) return undefined;
      // Fetching a picture would tell its server who reads.
      const shown = picture ? escapeHtml(`[picture: ${words}]`) : inline(words, depth + 1);
      return { html: link(address, shown), next: at + whole.length };
    }
    case "h": {
      if (/\w/.test(text[at - 1] ?? "")) return undefined;
      ADDRESS.lastIndex = at;
      const [address] = ADDRESS.exec(text) ?? [];
      return address === undefined
        ? undefined
        : { html: link(address, escapeHtml(address)), next: at + address.length };
    }
    case "*":
    case "_":
    case "~":
      return emphasis(text, at, depth);
    default:
      return undefined;
  }
}

function emphasis(text: string, at: number, depth: number): Read | undefined {
  for (const [mark, tag] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const isWord = mark.startsWith("_");
    if (isWord && /\w/.test(text[at - 1] ?? "")) return undefined;
    const begin = at + mark.length;
    if (/\s/.test(text[begin] ?? " ")) continue;
    for (let end = text.indexOf(mark, begin + 1); end >= 0; end = text.indexOf(mark, end + mark.length)) {
      const next = end + mark.length;
      if (/\s/.test(text[end - 1]!) || (isWord && /\w/.test(text[next] ?? ""))) continue;
      // The end of what is stronger isn't its own.
      if (mark.length === 1 && (text[next] === mark || text[end - 1] === mark)) continue;
      return { html: `<${tag}>${inline(text.slice(begin, end), depth + 1)}</${tag}>`, next };
    }
  }
  return undefined;
}

function link(address: string, shown: string): string {
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return shown;
  return `<a href="${escapeHtml(address)}" rel="noopener noreferrer nofollow">${shown}</a>`;
}
