import { type Handler, Parser } from "htmlparser2";
import { ToolRefusal } from "../define_tool.ts";

export interface PageText {
  readonly title: string;
  /** Markdown with absolute links. */
  readonly text: string;
}

const OMITTED = new Set(
  ("script style noscript template svg math iframe object embed canvas video audio select textarea button nav footer dialog")
    .split(" "),
);

/** Block elements. */
const BLOCKS = new Set(
  ("address article aside blockquote body center dd details dl dt div fieldset figcaption figure form h1 h2 h3 h4 h5 h6 " +
    "header hr html li main ol p pre section summary table tbody tfoot thead tr ul").split(" "),
);

const MAIN = new Set(["main", "article"]);

const MAIN_CHARS = 200;

interface Block {
  readonly text: string;
  /** Kind, if it follows one of the same kind without a blank line. */
  readonly kind: "item" | "row" | undefined;
  readonly isMain: boolean;
}

/** Maximum nesting: for each closing tag a parser searches all open ones. */
const MAX_DEPTH = 1_000;

const MAX_INDENT = 8;

const PIECE_CHARS = 100_000;

/**
 * Returns the readable text of an HTML page, in linear time and memory. Menus, scripts and hidden parts are
 * omitted, and everything outside of `main` or `article` if there is one.
 *
 * @throws {ToolRefusal} if it is nested too deep.
 */
export async function pageText(
  html: string,
  { base, signal }: {
    readonly base: URL;
    readonly signal: AbortSignal;
  },
): Promise<PageText> {
  const page = new PageReader(base);
  const parser = new Parser(page);
  for (let at = 0; at < html.length; at += PIECE_CHARS) {
    parser.write(html.slice(at, at + PIECE_CHARS));
    if (page.isTooDeep) throw new ToolRefusal(`its tags are nested deeper than ${MAX_DEPTH}.`);
    await new Promise((resolve) => setTimeout(resolve));
    signal.throwIfAborted();
  }
  parser.end();
  return page.text();
}

interface OpenElement {
  readonly isLeftOut: boolean;
  /** Target of a link, and position of its first piece. */
  readonly link?: { readonly to: string; readonly line: number; readonly at: number };
}

class PageReader implements Partial<Handler> {
  readonly #base: URL;
  readonly #blocks: Block[] = [];
  readonly #open: OpenElement[] = [];
  readonly #lists: (number | undefined)[] = [];
  #line: string[] = [];
  #lines = 0;
  #title = "";
  #isTitle = false;
  #leftOut = 0;
  #main = 0;
  #pre = 0;
  #quotes = 0;
  #mark = "";
  #kind: Block["kind"];

  constructor(base: URL) {
    this.#base = base;
  }

  get isTooDeep(): boolean {
    return this.#open.length > MAX_DEPTH;
  }

  onopentag(name: string, attributes: Readonly<Record<string, string>>): void {
    this.#isTitle ||= name === "title" && this.#leftOut === 0;
    const isLeftOut = name === "title" || OMITTED.has(name) || isHidden(attributes);
    if (isLeftOut) this.#leftOut++;
    if (this.#leftOut > 0) {
      this.#open.push({ isLeftOut });
      return;
    }
    if (BLOCKS.has(name)) this.#end();
    const to = name === "a" ? addressOf(attributes.href, this.#base) : undefined;
    const isNested = to !== undefined && this.#open.some(({ link }) => link);
    const link = { to: to ?? "", line: this.#lines, at: this.#line.length };
    this.#open.push({ isLeftOut, ...(to !== undefined && !isNested && { link }) });
    if (MAIN.has(name)) this.#main++;
    const level = /^h([1-6])$/.exec(name)?.[1];
    if (level) this.#mark = `${"#".repeat(Number(level))} `;
    else if (name === "ul" || name === "ol") this.#lists.push(name === "ol" ? 0 : undefined);
    else if (name === "li") this.#item();
    else if (name === "blockquote") this.#quotes++;
    else if (name === "pre") this.#pre++;
    else if (name === "tr") this.#kind = "row";
    else if ((name === "td" || name === "th") && this.#line.length > 0) this.#line.push(" | ");
    else if (name === "br") this.#line.push("\n");
    else if (name === "code" && this.#pre === 0) this.#line.push("`");
    else if (name === "img" && attributes.alt) this.#say(`[image: ${attributes.alt}]`);
  }

  ontext(text: string): void {
    if (this.#leftOut === 0) this.#say(text);
    else if (this.#isTitle) this.#title += text;
  }

  onclosetag(name: string): void {
    const closed = this.#open.pop();
    const isVisible = this.#leftOut === 0;
    if (closed?.isLeftOut) this.#leftOut--;
    if (name === "title") this.#isTitle = false;
    if (!isVisible) return;
    if (closed?.link?.line === this.#lines) {
      const { at, to } = closed.link;
      const content = this.#line.splice(at).join("");
      // A link without text, or with its address as text, has no second one.
      const isRepeated = content.trim() === "" || content.trim() === to;
      this.#line.push(isRepeated ? content : `[${content.trim()}](${to})`);
    }
    if (name === "code" && this.#pre === 0) this.#line.push("`");
    if (BLOCKS.has(name)) this.#end();
    if (name === "pre") this.#pre = Math.max(0, this.#pre - 1);
    if (name === "blockquote") this.#quotes = Math.max(0, this.#quotes - 1);
    if (name === "ul" || name === "ol") this.#lists.pop();
    if (MAIN.has(name)) this.#main = Math.max(0, this.#main - 1);
  }

  text(): PageText {
    this.#end();
    const own = this.#blocks.filter(({ isMain }) => isMain);
    const isEnough = own.reduce((sum, { text }) => sum + text.length, 0) >= MAIN_CHARS;
    const lines = (isEnough ? own : this.#blocks).map(({ text, kind }, at, all) =>
      at === 0 ? text : `${kind !== undefined && kind === all[at - 1]?.kind ? "\n" : "\n\n"}${text}`
    );
    return { title: this.#title.replaceAll(/\s+/g, " ").trim(), text: lines.join("") };
  }

  #item(): void {
    const count = this.#lists.pop();
    this.#lists.push(count === undefined ? undefined : count + 1);
    this.#mark = count === undefined ? "- " : `${count + 1}. `;
    this.#kind = "item";
  }

  #say(text: string): void {
    if (this.#pre > 0) {
      this.#line.push(text);
      return;
    }
    const flat = text.replaceAll(/\s+/g, " ");
    const before = this.#line.at(-1);
    const piece = before === undefined || /\s$/.test(before.slice(-1)) ? flat.trimStart() : flat;
    if (piece !== "") this.#line.push(piece);
  }

  #end(): void {
    const content = this.#line.join("");
    this.#line = [];
    this.#lines++;
    const text = this.#pre > 0
      ? content.replace(/^\n/, "").trimEnd()
      : content.replaceAll(/ ?\n ?/g, "\n").trim();
    if (text === "" || text === "``") return;
    const whole = this.#pre > 0 ? fenced(text) : this.#mark + text;
    const indent = "  ".repeat(Math.min(MAX_INDENT, Math.max(0, this.#lists.length - 1))) +
      "> ".repeat(Math.min(MAX_INDENT, this.#quotes));
    this.#blocks.push({
      text: indent === "" ? whole : whole.replaceAll(/^/gm, indent),
      kind: this.#kind,
      isMain: this.#main > 0,
    });
    this.#mark = "";
    this.#kind = undefined;
  }
}

/** Returns whether an element is invisible: it may be meant for programs only. */
function isHidden(attributes: Readonly<Record<string, string>>): boolean {
  return "hidden" in attributes || attributes["aria-hidden"] === "true" ||
    attributes.role === "navigation" ||
    /(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9]))/i.test(
      attributes.style ?? "",
    );
}

function addressOf(href: string | undefined, base: URL): string | undefined {
  if (href === undefined || href.startsWith("#")) return undefined;
  const url = URL.parse(href, base);
  return url && /^https?:$/.test(url.protocol) ? url.href : undefined;
}

function fenced(text: string): string {
  const longest = Math.max(
    2,
    ...[...text.matchAll(/^ {0,3}(`{3,})/gm)].map(([, ticks = ""]) => ticks.length),
  );
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}
