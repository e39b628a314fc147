import { assert, assertEquals } from "@std/assert";
import { page } from "@tare/page";

const ask = (path: string, init?: RequestInit) =>
  page.get(path)?.(new Request(`http://127.0.0.1:8787${path}`, init));

Deno.test("page: serves the page and its files with a policy that allows nothing else", async () => {
  const files: string[] = [];
  for (const path of ["/", "/page.css", "/page.js", "/page.svg"]) {
    const answer = ask(path);
    assert(answer);
    assertEquals(answer.status, 200);
    const { headers } = answer;
    files.push(headers.get("content-type")!);
    const policy = headers.get("content-security-policy")!.split("; ");
    assertEquals(policy.filter((rule) => /unsafe|https?:|\*/.test(rule)), []);
    assertEquals(policy.filter((rule) => /^(default|script|style|connect)-src/.test(rule)), [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "connect-src 'self'",
    ]);
    assert((await answer.text()).length > 100);
  }
  assertEquals(files, [
    "text/html; charset=utf-8",
    "text/css; charset=utf-8",
    "text/javascript; charset=utf-8",
    "image/svg+xml",
  ]);
});

Deno.test("page: returns 304 for a file that the browser has cached", async () => {
  const etag = ask("/page.js")!.headers.get("etag")!;
  for (const known of [etag, `W/${etag}`, `"other", W/${etag}`]) {
    const answer = ask("/page.js", { headers: { "if-none-match": known } })!;
    assertEquals([answer.status, await answer.text()], [304, ""]);
  }
  assertEquals(ask("/page.js", { headers: { "if-none-match": '"other"' } })!.status, 200);
  const head = ask("/", { method: "HEAD" })!;
  assertEquals([head.status, await head.text()], [200, ""]);
});

Deno.test("page: contains only its own paths", () => {
  assertEquals([...page.keys()], ["/", "/page.css", "/page.js", "/page.svg"]);
});

Deno.test("page: all files together are smaller than 80 kB compressed", async () => {
  let bytes = 0;
  for (const path of ["/", "/page.css", "/page.js", "/page.svg"]) {
    const packed = ask(path)!.body!.pipeThrough(new CompressionStream("gzip"));
    bytes += (await new Response(packed).bytes()).length;
  }
  assert(bytes < 80_000, `${bytes} bytes`);
});
