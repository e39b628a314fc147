import { assertEquals } from "@std/assert";
import { drawnMarkdown } from "./drawn_markdown.ts";

/** Returns the output for each piece. */
function pieces(texts: readonly string[], columns = Infinity): readonly string[] {
  const written: string[] = [];
  let now = "";
  const drawn = drawnMarkdown((text) => now += text, { columns: () => columns });
  for (const text of texts) {
    now = "";
    drawn.write(text);
    written.push(now);
  }
  now = "";
  drawn.end();
  return [...written, now];
}

/** Returns the output for a text, with names instead of codes. */
function draw(text: string, columns?: number): string {
  const names: Readonly<Record<string, string>> = {
    "1": "<b>",
    "2": "<dim>",
    "3": "<i>",
    "4": "<u>",
    "9": "<s>",
    "32": "<green>",
    "33": "<yellow>",
    "35": "<magenta>",
    "22": "</>",
    "23": "</i>",
    "24": "</u>",
    "29": "</s>",
    "36": "<code>",
    "39": "</color>",
  };
  return pieces([text], columns).join("").replaceAll(
    new RegExp("\x1b\\[(\\d+)m", "g"),
    (_, code) => names[code]!,
  );
}

Deno.test("drawnMarkdown() renders blocks line by line", () => {
  assertEquals(
    draw(`# Title **bold**
### Small
text with *em*, **strong _both_**, ~~old~~, \`a*b*\` and \\*stars\\*

- one
  * two [x](http://y.z)
1. three
- [x] done
- [ ] open
> said
> > deeper
---
\`\`\`ts
const a = "1"; /* 2
3 */ 4
\`\`\`
http://a.bc snake_case_name 2 * 3 * 4
`),
    `<b><u>Title bold</u></>
<b>Small</>
text with <i>em</i>, <b>strong <i>both</i></>, <s>old</s>, <code>a*b*</color> and *stars*

• one
  • two <u>x</u><dim> (http://y.z)</>
1. three
• ☑ done
• ☐ open
<dim>│ </>said
<dim>│ │ </>deeper
<dim>${"─".repeat(40)}</>
  <magenta>const</color> a = <green>"1"</color>; <dim>/* 2</>
  <dim>3 */</> <yellow>4</color>
<u>http://a.bc</u> snake_case_name 2 * 3 * 4
`,
  );
});

Deno.test("drawnMarkdown() renders a table within the width", () => {
  const table = "| name | **n** |\n|:--|--:|\n| `a` | 1 |\n| 漢字 | 100 |\n";
  assertEquals(
    draw(`${table}behind\n`),
    `<b>name</><dim> │ </>  <b>n</>
<dim>─────┼────</>
<code>a</color>   <dim> │ </>  1
漢字<dim> │ </>100
behind
`,
  );
  assertEquals(draw("| a |\n| b |\n"), "| a |\n| b |\n");
  const wide = "| a | b |\n|--|--|\n| one two three | y |\n";
  assertEquals(
    draw(wide, 12),
    "<b>a</>       <dim> │ </><b>b</>\n<dim>─────────┼──</>\none two <dim> │ </>y\nthree   <dim> │ </>\n",
  );
  // Too narrow for columns.
  assertEquals(draw(wide, 8), "<b>a</>: one\ntwo\nthree\n<b>b</>: y\n");
});

Deno.test("drawnMarkdown() writes text as soon as its rendering is certain", () => {
  assertEquals(pieces(["This is", " plain", " text, **bo", "ld** and", " more\n", "- ", "item o", "ne"]), [
    "This",
    " is",
    " plain text,",
    " \x1b[1mbold\x1b[22m",
    " and more\n",
    "",
    "• item",
    "",
    " one",
  ]);
  assertEquals(pieces(["`", "``\nco", "de", "\n```", "\nend"]), [
    "",
    "",
    "",
    "  code\n",
    "",
    "end",
  ]);
  // Unclosed markup is plain text.
  assertEquals(pieces(["a **b c\n"]).join(""), "a **b c\n");
  const long = `*${"x ".repeat(300)}`;
  assertEquals(pieces([long])[0], long.slice(0, -1));
  const huge = `${"**a** _b ".repeat(500).trimEnd()}\n`;
  assertEquals(pieces([huge])[0], huge);
  const rows = `| a |\n|--|\n${"| **b** |\n".repeat(500)}`;
  assertEquals(draw(rows), `<b>a</>\n<dim>─</>\n${"<b>b</>\n".repeat(500)}`);
  const longRow = `| a |\n|--|\n| ${"x".repeat(5_000)} |\n`;
  assertEquals(draw(longRow), longRow);
});

Deno.test("drawnMarkdown() writes the same text for any split into pieces", () => {
  const text = "# A *b*\n\n1. x **y** `z`\n> q\n```\n# no\n```\n| a |\n|--|\n| b |\n[l](http://m.n) end_ *";
  const whole = pieces([text]).join("");
  for (let at = 1; at < text.length; at++) {
    assertEquals(pieces([text.slice(0, at), text.slice(at)]).join(""), whole);
  }
  assertEquals(pieces([...text]).join(""), whole);
});

Deno.test("drawnMarkdown() escapes control characters and approval marks", () => {
  assertEquals(
    draw(
      "**\x1b[2J** `\x9b2K` [a\x07](http://x\u202e) ▌? &#x1b;[2J\n```\x1b\n\x1b[8m\n```\n| \x1b[A |\n|--|\n| x |\n",
    ),
    "<b>\\x1b[2J</> <code>\\x9b2K</color> <u>a\\x07</u><dim> (http://x\\u{202e})</> \\u{258c}? &#x1b;[2J\n" +
      "  \\x1b[8m\n<b>\\x1b[A</>\n<dim>──────</>\nx\n",
  );
});
