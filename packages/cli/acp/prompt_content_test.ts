import { assertEquals, assertThrows } from "@std/assert";
import { contentBlocks, promptContent } from "./prompt_content.ts";

Deno.test("promptContent() names files by their path in the workspace, and appends embedded text", () => {
  const content = promptContent([
    { type: "text", text: "Compare " },
    { type: "resource_link", name: "b c.ts", uri: "file:///w/src/b%20c.ts" },
    { type: "text", text: ", " },
    { type: "resource_link", name: "the other", uri: "file:///v/d.ts" },
    { type: "text", text: " and " },
    { type: "resource", resource: { uri: "file:///w/e.md#L1:2", text: "```\nx\n```\n" } },
    { type: "text", text: " with " },
    { type: "resource_link", name: "issue", uri: "https://example.com/1" },
  ], "/w");
  assertEquals(
    content,
    "Compare src/b c.ts, [the other](/v/d.ts) and e.md#L1:2 with [issue](https://example.com/1)" +
      "\n\ne.md#L1:2:\n````\n```\nx\n```\n````",
  );
  assertEquals(promptContent([{ type: "resource_link", name: "w", uri: "file:///w" }], "/w"), "[w](.)");
  assertEquals(promptContent([{ type: "resource_link", name: "a", uri: "file:///w/a" }]), "/w/a");
});

Deno.test("promptContent() returns images and files as parts, and rejects audio", () => {
  assertEquals(
    promptContent([
      { type: "text", text: "This" },
      { type: "image", mimeType: "image/png", data: "AA==" },
      { type: "text", text: "or " },
      { type: "resource", resource: { uri: "file:///w/a.pdf", mimeType: "application/pdf", blob: "AB==" } },
      { type: "resource", resource: { uri: "file:///w/b.gif", mimeType: "image/gif", blob: "AC==" } },
      { type: "resource", resource: { uri: "file:///w/c", blob: "AD==" } },
      { type: "text", text: "?" },
    ], "/w"),
    [
      { type: "text", text: "This" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
      { type: "text", text: "or " },
      { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AB==" } },
      { type: "image_url", image_url: { url: "data:image/gif;base64,AC==" } },
      { type: "file", file: { filename: "c", file_data: "data:application/octet-stream;base64,AD==" } },
      { type: "text", text: "?" },
    ],
  );
  assertThrows(
    () => promptContent([{ type: "audio", mimeType: "audio/wav", data: "AA==" }]),
    RangeError,
    "Cannot send the prompt: audio is not supported",
  );
});

Deno.test("contentBlocks() converts a user's message", () => {
  assertEquals(contentBlocks("Hi."), [{ type: "text", text: "Hi." }]);
  assertEquals(contentBlocks(""), []);
  assertEquals(
    contentBlocks([
      { type: "text", text: "This" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
      { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,AB==" } },
    ]),
    [
      { type: "text", text: "This" },
      { type: "image", mimeType: "image/png", data: "AA==" },
      { type: "text", text: "![](https://example.com/a.png)" },
      { type: "text", text: "(file)" },
    ],
  );
});
