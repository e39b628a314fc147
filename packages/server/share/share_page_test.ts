import { assertEquals, assertStringIncludes } from "@std/assert";
import type { AssistantMessage, Tool } from "@tare/messages";
import { agent, call, echo, newSession, request, scriptedModel, turn } from "../fixture_test.ts";

const HOSTILE = `</pre></details><script>alert("1")</script><img src=x onerror='alert(1)'>`;

function asking(id: string, args: object): Partial<AssistantMessage> {
  return {
    content: null,
    reasoning_content: `I think: ${HOSTILE}`,
    tool_calls: [{ id, type: "function", function: { name: "echo", arguments: JSON.stringify(args) } }],
  };
}

const edits: Tool = {
  ...echo,
  run: ({ text }) => ({
    content: `${HOSTILE} of ${text}`,
    error: false,
    ...(text !== "same" &&
      { change: { path: `${text}.txt`, added: 1, removed: 1, diff: `@@ -1 +1 @@\n-old <b>\n+${text}` } }),
  }),
};

async function shared(handler: ReturnType<typeof agent>, path: string) {
  const response = await handler.fetch(request("GET", `${path}/export?format=html`));
  const { status, headers } = response;
  return { status, headers, html: await response.text() };
}

function textOf(html: string): string {
  return html.replaceAll(/<[^>]*>/g, " ").replaceAll(/\s+/g, " ").trim();
}

Deno.test("sharePage() returns one file without scripts, whatever was written", async () => {
  const pixel = "data:image/png;base64,iVBORw0KGgo=";
  const replies = [
    asking("1", { text: "a" }),
    asking("1", { text: "same" }),
    asking("1", { text: "b" }),
    { content: `Done, **all of it**.\n\n${HOSTILE}\n\n[x](javascript:alert(1))` },
  ];
  const handler = agent(scriptedModel(replies), { tools: [edits], instructions: "SECRET OF THE SERVER" });
  const path = await newSession(handler);
  await turn(handler, path, [
    { type: "text", text: `${HOSTILE} of a person` },
    { type: "image_url", image_url: { url: pixel } },
    { type: "image_url", image_url: { url: `https://example.com/x.png?${HOSTILE}` } },
    { type: "file", file: { filename: HOSTILE, file_data: "x" } },
  ]);
  await call(handler, "POST", `${path}/title`, { title: `Der "Titel" & <b>ä</b>` });
  const { status, headers, html } = await shared(handler, path);
  assertEquals([status, headers.get("content-type"), headers.get("content-disposition")], [
    200,
    "text/html; charset=utf-8",
    'attachment; filename="Der-Titel-b-a-b.html"',
  ]);
  const [, policy = ""] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html) ?? [];
  const plainPolicy = policy.replaceAll("&#39;", "'");
  assertEquals(headers.get("content-security-policy"), `sandbox; ${plainPolicy}`);
  const [, style = ""] = /<style>([^<]*)<\/style>/.exec(html) ?? [];
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style));
  assertEquals(
    plainPolicy,
    `default-src 'none'; style-src 'sha256-${
      new Uint8Array(hash).toBase64()
    }'; img-src data:; base-uri 'none'; form-action 'none'`,
  );
  // No text is an element, and nothing is fetched.
  assertEquals(html.match(/<(script|iframe|link|object|form|base|svg)|<[^>]*\son\w+=/gi), null);
  assertEquals(html.match(/<img[^>]*>/g), [`<img src="${pixel}" alt="Attached image">`]);
  assertEquals(html.match(/\s(src|href|action|background)="[^"]*"/g), [` src="${pixel}"`]);
  assertEquals(html.includes("SECRET OF THE SERVER"), false);
  // Each call has its own change, though all share one id.
  const changed = html.match(/<details class="call">[^]*?<\/details>/g)!.map(textOf);
  assertEquals(changed.map((one) => /^echo (\w+)( \w\.txt)?/.exec(one)?.[0]), [
    "echo a a.txt",
    "echo same",
    "echo b b.txt",
  ]);
  assertStringIncludes(html, '<span class="removed">-old &lt;b&gt;\n</span><span class="added">+b\n</span>');
  assertStringIncludes(html, "<p>Done, <strong>all of it</strong>.</p>");
  // Calls, results and reasoning are collapsed; messages aren't.
  assertEquals(html.match(/<details[^>]*open/g), null);
  assertEquals(html.match(/<details/g)?.length, 6);
});

Deno.test("sharePage() contains the ended turns, and the start of long texts", async () => {
  const long = { ...echo, run: () => "line\n".repeat(10_000) };
  const handler = agent(scriptedModel([asking("1", { text: "x" }), { content: "done" }]), { tools: [long] });
  const path = await newSession(handler);
  const empty = await shared(handler, path);
  assertStringIncludes(textOf(empty.html), "Session of 1970-01-01");
  assertEquals(empty.headers.get("content-disposition"), 'attachment; filename="session.html"');
  await turn(handler, path, "Go.");
  const { html } = await shared(handler, path);
  assertStringIncludes(html, "</pre><p>and 30000 more characters</p>");
  assertEquals(html.length < 30_000, true);
  assertEquals((await shared(handler, "/tare/v1/sessions/none")).status, 404);
});
