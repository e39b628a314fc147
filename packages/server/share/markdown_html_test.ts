import { assertEquals } from "@std/assert";
import { markdownHtml } from "./share_page.ts";

const visible = (text: string) => markdownHtml(text).replaceAll(/>\n</g, "><");

Deno.test("markdownHtml() renders what models write", () => {
  assertEquals(
    visible("### One\n\nA **bold** and *soft* `a < b`, ~~gone~~, snake_case and __both__.\nNext."),
    "<h2>One</h2><p>A <strong>bold</strong> and <em>soft</em> <code>a &lt; b</code>, <s>gone</s>, snake_case " +
      "and <strong>both</strong>.\nNext.</p>",
  );
  assertEquals(
    visible("```ts\nif (a < b) **c**;\n```\nafter"),
    '<pre tabindex="0"><code>if (a &lt; b) **c**;\n</code></pre><p>after</p>',
  );
  assertEquals(
    visible("- one\n- two\n  - inner\n\n3. three\n4. four"),
    '<ul><li>one</li><li>two\n<ul><li>inner</li></ul></li></ul><ol start="3"><li>three</li><li>four</li></ol>',
  );
  assertEquals(
    visible("> said\n> - so\n\n---"),
    "<blockquote><p>said</p><ul><li>so</li></ul></blockquote><hr>",
  );
  assertEquals(
    visible("| a | b |\n|---|--:|\n| 1 \\| 2 | **3** |\n\nend"),
    '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table><thead><tr><th scope="col">a</th>' +
      '<th scope="col">b</th></tr></thead><tbody><tr><td>1 | 2</td>' +
      "<td><strong>3</strong></td></tr></tbody></table></div><p>end</p>",
  );
});

Deno.test("markdownHtml() links only to the web, fetches nothing, and escapes tags", () => {
  const web = (address: string, text: string) =>
    `<a href="${address}" rel="noopener noreferrer nofollow">${text}</a>`;
  assertEquals(
    visible("[a](https://example.com/?a=1&b=%22) https://example.com/b."),
    `<p>${web("https://example.com/?a=1&amp;b=%22", "a")} ${
      web("https://example.com/b", "https://example.com/b")
    }.</p>`,
  );
  for (
    const address of [
      "javascript:alert(1)",
      "//evil.example",
      "data:text/html,x",
      "file:///etc",
      "/tare/v1/keys",
    ]
  ) {
    assertEquals(visible(`[d](${address}) ![e](${address})`), `<p>[d](${address}) ![e](${address})</p>`);
  }
  assertEquals(
    visible("![p](https://example.com/p.png)"),
    `<p>${web("https://example.com/p.png", "[image: p]")}</p>`,
  );
  const hostile = `<script>alert(1)</script> <img src=x onerror="alert(1)"> & 'q' \\<b>`;
  const places = ["", "# ", "> ", "- ", "```", "    ", "![", "[x]: https://a/ ", "| "];
  const html = visible([...places.map((place) => place + hostile), `\`${hostile}\``].join("\n\n"));
  assertEquals(html.match(/<(?!\/?(p|h2|blockquote|ul|li|code|pre)\b)[^>]*>|<\w[^>]*\son/g), null);
  assertEquals(
    visible(`[x](<https://a/"onmouseover="alert(1)>)`),
    `<p>${web("https://a/%22onmouseover=%22alert(1)", "x")}</p>`,
  );
  assertEquals(visible("a\0\ud800b"), "<p>a\ufffd\ufffdb</p>");
});

Deno.test("markdownHtml() withstands open, nested and long input", () => {
  assertEquals(visible("**open *so `and [this](http"), "<p>**open *so `and [this](http</p>");
  for (const part of ["`", "``a", "**", "*a", "_", "[", "![a](", "> ", "- ", "| a |\n|-", "\\", "1. "]) {
    const html = visible(part.repeat(20_000 / part.length));
    assertEquals(html.startsWith("<"), true, part);
  }
  const long = "<b>".repeat(40_000);
  assertEquals(visible(long), `<p class="plain">${"&lt;b&gt;".repeat(40_000)}</p>`);
});
