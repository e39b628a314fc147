import { Lexer, type MarkedToken, type Token, type Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { memo } from "preact/compat";
import { useMemo, useRef, useState } from "preact/hooks";
import { Clip } from "./clip.tsx";

/** Longest Markdown in characters; longer text is displayed as plain text, because its layout would block the page. */
const LONGEST = 200_000;

/** Renders Markdown as elements, never as HTML; unchanged blocks aren't rendered again while the text grows. */
export function Markdown({ text: whole, isLive = false }: {
  readonly text: string;
  /** Whether the text grows; then its end is withheld where a later character would change its layout. */
  readonly isLive?: boolean;
}): JSX.Element {
  const known = useRef<Lexed>({ text: "", tokens: [] });
  const text = isLive ? settledPart(whole) : whole;
  const { tokens } = useMemo(() => known.current = lexOn(known.current, text), [text]);
  if (text.length > LONGEST) return <Clip text={text} />;
  return <div class="markdown" dir="auto">{tokens.map((token, at) => <Block key={at} token={token} />)}</div>;
}

/**
 * Returns a growing text without an end that isn't certain: a line that may become a heading, list, rule or table, an open
 * link, and marks that may open or close emphasis or code.
 */
export function settledPart(text: string): string {
  const start = text.lastIndexOf("\n") + 1;
  const line = text.slice(start);
  const before = text.slice(0, start);
  // Code is displayed as it comes, except for a line that may end it.
  const isCode = (before.match(/^ {0,3}(?:```|~~~)/gm) ?? []).length % 2 === 1;
  if (isCode) return /^ {0,3}[`~]/.test(line) ? before : text;
  if (/^ {0,3}(?:```|~~~)/.test(line)) return before;
  // A table's rows are displayed whole, and its head with the row below it.
  const rows = /(?:^|\n)((?:[ \t]*\|[^\n]*\n)*)$/.exec(before)?.[1] ?? "";
  if (/^\s*\|/.test(line) || rows !== "" && /^[\s:|-]*$/.test(line)) {
    return rows.split("\n").length > 2 ? before : before.slice(0, before.length - rows.length).trimEnd();
  }
  if (/^[\s>]*(?:[-*+=_#|>`~:\s]*|\d+[.)]?\s*)$/.test(line)) return before.trimEnd();
  const open = /!?\[[^\]\n]*(?:\](?:\([^)\n]*)?)?$/.exec(line);
  const rest = open ? line.slice(0, open.index) : line;
  return before + closed(rest.replace(/[*_~`!]+$/, ""));
}

/** Returns a line with its open emphasis and code closed. */
function closed(line: string): string {
  const ends: string[] = [];
  for (const { 0: mark, index } of line.matchAll(/`+|\*+|~~|_+/g)) {
    const isCode = ends.at(-1)?.startsWith("`") ?? false;
    const [before = " ", after = " "] = [line[index - 1], line[index + mark.length]];
    if (ends.at(-1) === mark && (isCode || before !== " ")) ends.pop();
    else if (!isCode && (mark.startsWith("`") || after !== " " && !/\w/.test(before))) ends.push(mark);
  }
  return line.trimEnd() + ends.reverse().join("");
}

interface Lexed {
  readonly text: string;
  readonly tokens: readonly Token[];
}

const OPEN_BLOCKS = 2;

/** Parses a text. If it extends the previous text, only the end is parsed again. */
function lexOn(before: Lexed, whole: string): Lexed {
  const text = whole.length > LONGEST ? "" : whole.replaceAll(/\r\n?/g, "\n");
  const continues = before.text !== "" && text.startsWith(before.text);
  const retained = continues ? before.tokens.slice(0, -OPEN_BLOCKS) : [];
  const from = retained.reduce((length, { raw }) => length + raw.length, 0);
  return { text, tokens: [...retained, ...Lexer.lex(text.slice(from))] };
}

const Block = memo(
  ({ token }: { readonly token: Token }) => <>{block(token as MarkedToken)}</>,
  (before, after) => before.token.raw === after.token.raw && before.token.type === after.token.type,
);

function block(token: MarkedToken): ComponentChildren {
  switch (token.type) {
    case "heading":
      // One level below the page's headings; skipped levels would mislead screen readers.
      return <h2 class={`depth-${token.depth}`}>{inline(token.tokens)}</h2>;
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "code":
      return <Code text={token.text} language={token.lang} />;
    case "blockquote":
      return <blockquote>{blocks(token.tokens)}</blockquote>;
    case "list":
      return list(token);
    case "table":
      return table(token);
    case "hr":
      return <hr />;
    case "space":
    case "def":
      return null;
    case "html":
      return <p>{token.raw}</p>;
    case "text":
      return token.tokens ? <p>{inline(token.tokens)}</p> : <p>{decode(token.text)}</p>;
    default:
      return inline([token]);
  }
}

function blocks(tokens: readonly Token[]): ComponentChildren {
  return tokens.map((token, at) => <Block key={at} token={token} />);
}

function list({ ordered, start, items, loose }: Tokens.List): ComponentChildren {
  const entries = items.map((item, at) => (
    <li key={at} class={item.task ? "task" : undefined}>
      {item.task && <span class="box" aria-hidden="true">{item.checked ? "☑" : "☐"}</span>}
      {loose ? blocks(item.tokens) : item.tokens.map((token) => tight(token as MarkedToken))}
    </li>
  ));
  return ordered ? <ol start={Number(start) || 1}>{entries}</ol> : <ul>{entries}</ul>;
}

function tight(token: MarkedToken): ComponentChildren {
  if (token.type === "checkbox") return null;
  return token.type === "text" ? (token.tokens ? inline(token.tokens) : decode(token.text)) : block(token);
}

function table({ header, rows, align }: Tokens.Table): ComponentChildren {
  const cell = (at: number) => (align[at] ? `align-${align[at]}` : undefined);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {header.map(({ tokens }, at) => <th key={at} scope="col" class={cell(at)}>{inline(tokens)}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.map(({ tokens }, at) => <td key={at} class={cell(at)}>{inline(tokens)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[]): ComponentChildren {
  return tokens.map((one) => {
    const token = one as MarkedToken;
    switch (token.type) {
      case "strong":
        return <strong>{inline(token.tokens)}</strong>;
      case "em":
        return <em>{inline(token.tokens)}</em>;
      case "del":
        return <del>{inline(token.tokens)}</del>;
      case "codespan":
        return <code>{token.text}</code>;
      case "br":
        return <br />;
      case "link":
        return <Link href={token.href}>{inline(token.tokens)}</Link>;
      case "image":
        // Fetching the image would notify its server.
        return <Link href={token.href}>{`[image: ${decode(token.text)}]`}</Link>;
      case "escape":
        return token.text;
      case "text":
        return token.tokens ? inline(token.tokens) : decode(token.text);
      default:
        return token.raw;
    }
  });
}

function Link({ href, children }: { readonly href: string; readonly children: ComponentChildren }) {
  if (!/^(https?|mailto):/i.test(href)) return <span class="dead-link" title={href}>{children}</span>;
  return <a href={href} target="_blank" rel="noopener noreferrer nofollow">{children}</a>;
}

function Code({ text, language }: { readonly text: string; readonly language?: string | undefined }) {
  const [word, setWord] = useState("Copy");
  const name = language?.split(/[\s,{]/, 1)[0] ?? "";
  // The clipboard API needs a secure context.
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setWord("Copied");
    } catch {
      setWord("Copying not supported");
    }
  };
  return (
    <figure class="code">
      <figcaption>
        <bdi>{name}</bdi>
        <button type="button" class="quiet" onClick={copy} onBlur={() => setWord("Copy")}>{word}</button>
      </figcaption>
      <Clip text={text} language={name} />
    </figure>
  );
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  mdash: "—",
  ndash: "–",
  hellip: "…",
};

function decode(text: string): string {
  if (!text.includes("&")) return text;
  return text.replaceAll(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]+));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole;
    const code = decimal === undefined ? parseInt(hex, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
