import { assert, assertEquals, assertLess } from "@std/assert";
import fc, { cases } from "../../tests/cases.ts";
import { estimateTokens, type Message, partsOfBlock } from "@tare/messages";
import { countMessageTokens, isMedia } from "@tare/messages/internal";

const base64 = (bytes: Uint8Array) => btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join(""));

/** Length and seed of a payload. */
const payloads = fc.record({ length: fc.integer({ min: 1_000, max: 400_000 }), seed: fc.nat(250) });

/** Every block type with data, by protocol and framework. */
const BLOCKS: Readonly<Record<string, (data: string, bytes: Uint8Array) => object>> = {
  "chat image": (data) => ({ type: "image_url", image_url: { url: `data:image/png;base64,${data}` } }),
  "chat image as a string": (data) => ({ type: "image_url", image_url: `data:image/png;base64,${data}` }),
  "chat audio": (data) => ({ type: "input_audio", input_audio: { data, format: "wav" } }),
  "chat audio URL": (data) => ({ type: "audio_url", audio_url: { url: `data:audio/mp3;base64,${data}` } }),
  "chat video": (data) => ({ type: "video_url", video_url: { url: `data:video/mp4;base64,${data}` } }),
  "chat file": (data) => ({ type: "file", file: { file_data: data, filename: "a.pdf" } }),
  "Mistral document": (data) => ({
    type: "document_url",
    document_url: `data:application/pdf;base64,${data}`,
  }),
  "Responses image": (data) => ({
    type: "input_image",
    image_url: `data:image/png;base64,${data}`,
    detail: "low",
  }),
  "Responses file": (data) => ({ type: "input_file", file_data: data, filename: "a.pdf" }),
  "Responses audio": (data) => ({ type: "input_audio", input_audio: { data, format: "mp3" } }),
  "Responses screenshot": (data) => ({
    type: "computer_screenshot",
    image_url: `data:image/png;base64,${data}`,
  }),
  "Messages image": (data) => ({ type: "image", source: { type: "base64", media_type: "image/png", data } }),
  "Messages document": (data) => ({
    type: "document",
    source: { type: "base64", media_type: "application/pdf", data },
  }),
  "AI SDK 5 file": (data) => ({ type: "file", mediaType: "application/pdf", data }),
  "AI SDK 5 file of bytes": (_, data) => ({ type: "file", mediaType: "image/png", data }),
  "AI SDK 5 media": (data) => ({ type: "media", mediaType: "video/mp4", data }),
  "AI SDK 6 image": (data) => ({ type: "image-data", mediaType: "image/png", data }),
  "AI SDK 6 file": (data) => ({ type: "file-data", mediaType: "application/pdf", data }),
  "AI SDK 6 image URL": (data) => ({ type: "image-url", url: `data:image/png;base64,${data}` }),
  "AI SDK 6 file URL": (data) => ({ type: "file-url", url: new URL(`data:image/png;base64,${data}`) }),
  "AI SDK 6 custom": (data) => ({ type: "custom", value: { image: data } }),
  "AI SDK 7 file": (data) => ({ type: "file", mediaType: "image/png", data: { type: "data", data } }),
  "AI SDK 7 file of bytes": (_, data) => ({
    type: "file",
    mediaType: "audio/mp3",
    data: { type: "data", data },
  }),
  "AI SDK 7 file by URL": (data) => ({
    type: "file",
    mediaType: "image/*",
    data: { type: "url", url: new URL(`data:image/png;base64,${data}`) },
  }),
  "AI SDK 7 reasoning file": (data) => ({
    type: "reasoning-file",
    mediaType: "image/png",
    data: { type: "data", data },
  }),
  "LangChain image": (data) => ({ type: "image", data, mimeType: "image/png" }),
  "LangChain image of version 0": (data) => ({
    type: "image",
    source_type: "base64",
    mime_type: "image/png",
    data,
  }),
  "LangChain audio": (data) => ({ type: "audio", data, mimeType: "audio/wav" }),
  "LangChain video": (_, data) => ({ type: "video", data, mimeType: "video/mp4" }),
  "LangChain file": (data) => ({ type: "file", data, mimeType: "application/pdf" }),
  "LangChain media": (data) => ({ type: "media", mimeType: "audio/wav", data }),
  "LangChain non-standard": (data) => ({ type: "non_standard", value: { any: [{ data }] } }),
  "OpenAI Agents image": (data) => ({ type: "image", image: `data:image/png;base64,${data}` }),
  "OpenAI Agents image data": (data) => ({ type: "image", image: { data, mediaType: "image/png" } }),
  "OpenAI Agents image bytes": (_, data) => ({ type: "image", image: { data, mediaType: "image/png" } }),
  "OpenAI Agents input image": (data) => ({ type: "input_image", image: `data:image/png;base64,${data}` }),
  "OpenAI Agents file": (data) => ({
    type: "file",
    file: { data, mediaType: "application/pdf", filename: "a" },
  }),
  "OpenAI Agents input file": (data) => ({ type: "input_file", file: `data:application/pdf;base64,${data}` }),
  "OpenAI Agents audio": (data) => ({ type: "audio", audio: data, format: "mp3", transcript: "Hi." }),
  "MCP image": (data) => ({ type: "image", data, mimeType: "image/png" }),
  "MCP resource": (data) => ({
    type: "resource",
    resource: { uri: "file:///a", mimeType: "video/mp4", blob: data },
  }),
  "an unknown type": (data) => ({ type: "hologram", inner: { list: [data] } }),
  "unknown bytes": (_, data) => ({ type: "hologram", inner: { list: [data] } }),
  "an unknown buffer": (_, data) => ({ type: "hologram", inner: new Uint8Array(data).buffer }),
};

Deno.test("partsOfBlock() returns the data of every block type as complete media, counted as media", () => {
  fc.assert(
    fc.property(payloads, ({ length, seed }) => {
      const bytes = Uint8Array.from({ length }, (_, at) => at * 31 + seed * (at >> 3));
      const data = base64(bytes);
      for (const [name, block] of Object.entries(BLOCKS)) {
        const given = block(data, bytes);
        const parts = partsOfBlock(given);
        const media = parts.filter(isMedia);
        assertEquals(media.length, 1, name);
        assert(JSON.stringify(media).includes(data), `${name}: its data isn't whole`);
        const texts = parts.flatMap((part) => part.type === "text" ? part.text : []).join("");
        assert(!texts.includes(data.slice(0, 100)), `${name}: its data is text`);
        const tokens = countMessageTokens(
          { role: "tool", tool_call_id: "1", content: parts },
          estimateTokens,
        );
        assertLess(tokens, 1_000 + data.length / 20, name);
      }
    }),
    { numRuns: cases(3) },
  );
});

Deno.test("countMessageTokens() counts data in parts of other formats as data", () => {
  const data = "A".repeat(400_000);
  const parts = [
    { type: "video_url", video_url: { url: `data:video/mp4;base64,${data}` } },
    { type: "video_url", video_url: `data:video/mp4;base64,${data}` },
    { type: "audio_url", audio_url: { url: `data:audio/mp3;base64,${data}` } },
    { type: "image", data },
    { type: "text-plain", data, mimeType: "text/plain" },
    { type: "hologram", data },
  ];
  const counts = parts.map((part) =>
    countMessageTokens({ role: "user", content: [part] } as unknown as Message, estimateTokens)
  );
  assertEquals(counts, [3_130, 12_514, 12_516, 12_511, 12_518, 12_512]);
});

Deno.test("partsOfBlock() chooses the kind of media by media type, then by block type", () => {
  const kinds = (blocks: readonly object[]) =>
    blocks.map((block) => partsOfBlock(block).map(({ type }) => type).join());
  const data = "QUJD".repeat(100);
  assertEquals(
    kinds([
      { type: "media", data, mediaType: "image/png" },
      { type: "file", data, mediaType: "audio/mp3" },
      { type: "file-data", data, mediaType: "video/mp4" },
      { type: "file", data, mediaType: "application/pdf" },
      { type: "image-data", data, mediaType: "" },
      { type: "input_file", file_data: `data:image/png;base64,${data}` },
      { type: "image-file-id", fileId: "file_1" },
      { type: "file-reference", providerReference: { any: "file_1" } },
      { type: "file", data: { type: "reference", reference: { any: "file_1" } }, mediaType: "image/png" },
      { type: "document" },
      { type: "hologram", data, mediaType: "image/png" },
    ]),
    [
      "image_url",
      "input_audio",
      "video_url",
      "file",
      "image_url",
      "image_url",
      "image_url",
      "file",
      "image_url",
      "file",
      "text,image_url",
    ],
  );
});

Deno.test("partsOfBlock() returns text anywhere in a block as text", () => {
  const text = "A line.";
  const blocks = [
    text,
    { type: "text", text },
    { type: "input_text", text },
    { type: "output_text", text, annotations: [] },
    { type: "text-plain", text, mimeType: "text/plain" },
    { type: "file", source_type: "text", text },
    { type: "file", mediaType: "text/plain", data: { type: "text", text } },
    { type: "document", source: { type: "text", media_type: "text/plain", data: text } },
    { type: "document", source: { type: "content", content: [{ type: "text", text }] } },
    { type: "resource", resource: { uri: "file:///a", text } },
  ];
  assertEquals(blocks.map(partsOfBlock), blocks.map(() => [{ type: "text" as const, text }]));
  const visible = { type: "text", text: "data:image/png;base64,AAAA" } as const;
  assertEquals(partsOfBlock(visible), [visible]);
});

Deno.test("partsOfBlock() returns structured data as its JSON text", () => {
  const blocks = [
    { type: "custom", kind: "a.b" },
    { type: "search_result", source: "a", title: "b", content: [{ type: "text", text: "c" }] },
    { type: "tool_reference", tool_name: "read" },
    { type: "source", sourceType: "url", id: "1", url: "https://a.example" },
    { type: "x", list: [1, null, true], word: "x".repeat(255) },
  ];
  assertEquals(
    blocks.map(partsOfBlock),
    blocks.map((block) => [{ type: "text" as const, text: JSON.stringify(block) }]),
  );
});
