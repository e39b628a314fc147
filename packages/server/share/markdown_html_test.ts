import { assertEquals } from "@std/assert";
import { markdownHtml } from "./markdown_html.ts";

const shown = (text: string) => markdownHtml(text);

Deno.test("markdownHtml() shows what models write", () => {
  assertEquals(
    shown("# One\n\nA **bold** and *soft* `a < b`, ~~gone~~, snake_case and __both__.\nNext."),
    [
      "<h2>One</h2>",
      "<p>A <strong>bold</strong> and <em>soft</em> <code>a &lt; b</code>, <del>gone</del>, snake_case and " +
      "<strong>both</strong>.\nNext.</p>",
    ].join(""),
  );
  assertEquals(
    shown("```ts\nif (a < b) **c**;\n```\nafter"),
    '<pre tabindex="0"><code>if (a &lt; b) **c**;</code></pre><p>after</p>',
  );
  assertEquals(shown("````\n```\nin\n```\n````"), '<pre tabindex="0"><code>```\nin\n```</code></pre>');
  assertEquals(shown("~~~\nopen"), '<pre tabindex="0"><code>open</code></pre>');
  assertEquals(
    shown("- one\n  more\n- two\n  - inner\n\n  ```\n  code\n  ```\n\n3. three\n4) four"),
    '<ul><li>one\nmore</li><li>two<ul><li>inner</li></ul><pre tabindex="0"><code>code</code></pre></li></ul>' +
      '<ol start="3"><li>three</li><li>four</li></ol>',
  );
  assertEquals(
    shown("> said\n> - so\n\n---"),
    "<blockquote><p>said</p><ul><li>so</li></ul></blockquote><hr>",
  );
  assertEquals(
    shown("| a | b |\n|---|--:|\n| 1 \\| 2 | **3** |\n\nend"),
    '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table><thead><tr><th scope="col">a</th>' +
      '<th scope="col">b</th></tr></thead><tbody><tr><td>1 | 2</td><td><strong>3</strong></td></tr></tbody>' +
      "</table></div><p>end</p>",
  );
});

Deno.test("markdownHtml() leads to the web or nowhere, fetches nothing, and leaves no tag a tag", () => {
  const web = (address: string, text: string) =>
    `<a href="${address}" rel="noopener noreferrer nofollow">${text}</a>`;
  assertEquals(
    shown("[a](https://example.com/?a=1&b=%22) https://example.com/b. [c](javascript:alert(1))"),
    `<p>${web("https://example.com/?a=1&amp;b=%22", "a")} ${
      web("https://example.com/b", "https://example.com/b")
    }. [c](javascript:alert(1))</p>`,
  );
  assertEquals(shown("[d](javascript:x) [e](//evil.example) [f](data:text/html,x)"), "<p>d e f</p>");
  assertEquals(
    shown("![p](https://example.com/p.png)"),
    `<p>${web("https://example.com/p.png", "[picture: p]")}</p>`,
  );
  const hostile = `<script>alert(1)</script> <img src=x onerror="alert(1)"> & 'q' \\<b>`;
  const html = shown(
    [
      hostile,
      `# ${hostile}`,
      `> ${hostile}`,
      `- ${hostile}`,
      `| ${hostile} |\n|---|`,
      `\`${hostile}\``,
      `\`\`\`${hostile}\n${hostile}`,
    ]
      .join("\n\n"),
  );
  assertEquals(
    html.match(/<(?!\/?(p|h2|blockquote|ul|li|div|table|thead|tbody|tr|th|td|code|pre)\b)[^>]*>/g),
    null,
  );
  assertEquals(
    shown(`[x](https://a/"onmouseover="alert(1))`),
    `<p>[x](${web("https://a/", "https://a/")}&quot;onmouseover=&quot;alert(1))</p>`,
  );
  assertEquals(shown("a\0\ud800b"), "<p>a\ufffd\ufffdb</p>");
});

Deno.test("markdownHtml() ends on whatever is open, and soon", () => {
  assertEquals(shown("**open *so `and [this](http"), "<p>**open *so `and [this](http</p>");
  assertEquals(shown("* a *b* c* **d*e**"), "<ul><li>a <em>b</em> c* <strong>d*e</strong></li></ul>");
  const parts = [
    "`",
    "``a",
    "**",
    "*a",
    "_",
    "[",
    "![a](",
    "> ",
    "- ",
    "| a |\n|-",
    "\\",
    "~~",
    "https://",
    "1. ",
  ];
  for (const part of parts) {
    const lines = `${part}\n`.repeat(5_000);
    for (const text of [part.repeat(3_900 / part.length), part.repeat(50_000), lines]) {
      assertEquals(shown(`x\n\n${text}\n\n\`\`\`\`y`).startsWith("<p>x</p>"), true, part);
      assertEquals(shown(`x ${text}`).startsWith("<p>x"), true, part);
    }
  }
});
