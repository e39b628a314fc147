import { assertEquals } from "@std/assert";
import { Lexer, type Token } from "marked";
import { settledPart } from "./parts/markdown.tsx";

const TEXTS = [
  "A paragraph with **strong words** and `code`, ~~old~~ words, 2 * 3 * 4 and snake_case_names.",
  "A line\n- that becomes a list\n- with a [link](https://example.com/a/long/path) in it\n\nThe end.",
  "Text\n\n| name | lines |\n|---|---:|\n| first | 200 |\n| second | 1,200 |\n\nThe end of the table.",
  "## A heading\n\n1. one\n2. two\n\n> A quote\n\n---\n\nAn end.",
  "Code:\n\n```ts\nconst a = 1;\nconst b = `${a}`;\n```\n\nAfter it, `inline`.",
  "With *one star*, _one line_, ***three stars***, `a * b`, and **bold with *more* in it**.",
  "An ![image](https://example.com/p.png) and a [reference] that isn't one.\n\n* star\n+ plus",
];

/** Returns type and text of each block, as displayed. */
function blocksOf(text: string): readonly (readonly [type: string, text: string])[] {
  const blocks = Lexer.lex(text).filter(({ type }) => type !== "space");
  return blocks.map((token) => [token.type, visibleText(token)]);
}

function visibleText(token: Token): string {
  if (token.type === "table") {
    return [token.header, ...token.rows].flat().map(({ tokens }) => tokens.map(visibleText).join("")).join(
      "|",
    );
  }
  if (token.type === "image") return `[image: ${token.text}]`;
  const inner = token.type === "list" ? token.items : "tokens" in token ? token.tokens : undefined;
  return inner ? inner.map(visibleText).join("") : "text" in token ? token.text : "";
}

Deno.test("settledPart() only adds to the end of the displayed text, whatever character comes next", () => {
  for (const text of TEXTS) {
    let before = blocksOf("");
    for (let length = 1; length <= text.length; length++) {
      const blocks = blocksOf(settledPart(text.slice(0, length)));
      for (const [at, [type, shown]] of before.entries()) {
        const [nextType, nextShown = ""] = blocks[at] ?? [];
        const where = JSON.stringify(text.slice(0, length));
        assertEquals(
          [where, nextType, nextShown.startsWith(shown)],
          [where, type, true],
          `${shown} → ${nextShown}`,
        );
      }
      before = blocks;
    }
  }
});

Deno.test("settledPart() withholds little: at most a line, a table's head or a link", () => {
  for (const text of TEXTS) {
    for (let length = 1; length <= text.length; length++) {
      const prefix = text.slice(0, length);
      const withheld = prefix.length - settledPart(prefix).length;
      assertEquals(withheld <= 60, true, `${withheld} of ${JSON.stringify(prefix)}`);
    }
  }
});
