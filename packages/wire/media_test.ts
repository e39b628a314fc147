import { assert, assertEquals, assertLess } from "@std/assert";
import fc, { cases } from "../../tests/cases.ts";
import { contentText, estimateTokens } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import { CHAT_PROTOCOL, MESSAGES_PROTOCOL, type Protocol, RESPONSES_PROTOCOL } from "@tare/wire/internal";

const PNG = "data:image/png;base64,";

/** Parts with data, and items with such a part, by protocol. */
const PROTOCOLS: Readonly<
  Record<string, {
    readonly protocol: Protocol;
    readonly parts: (data: string) => readonly object[];
    readonly items: (part: object) => readonly object[];
  }>
> = {
  "chat completions": {
    protocol: CHAT_PROTOCOL,
    parts: (data) => [
      { type: "image_url", image_url: { url: PNG + data } },
      { type: "image_url", image_url: PNG + data },
      { type: "input_audio", input_audio: { data, format: "wav" } },
      { type: "audio_url", audio_url: { url: `data:audio/wav;base64,${data}` } },
      { type: "video_url", video_url: { url: `data:video/mp4;base64,${data}` } },
      { type: "file", file: { file_data: `data:application/pdf;base64,${data}` } },
      { type: "hologram", inner: [data] },
    ],
    items: (part) => [
      { role: "user", content: [{ type: "text", text: "Look." }, part] },
      { role: "tool", tool_call_id: "1", content: [{ type: "text", text: "Look." }, part] },
    ],
  },
  "responses": {
    protocol: RESPONSES_PROTOCOL,
    parts: (data) => [
      { type: "input_image", image_url: PNG + data, detail: "auto" },
      { type: "input_file", file_data: `data:application/pdf;base64,${data}`, filename: "a.pdf" },
      { type: "input_audio", input_audio: { data, format: "mp3" } },
      { type: "input_video", video_url: `data:video/mp4;base64,${data}` },
      { type: "hologram", inner: [data] },
    ],
    items: (part) => [
      { role: "user", content: [{ type: "input_text", text: "Look." }, part] },
      { type: "function_call_output", call_id: "1", output: [part] },
      { type: "custom_tool_call_output", call_id: "1", output: [part] },
      { type: "computer_call_output", call_id: "1", output: { ...part, type: "computer_screenshot" } },
      {
        type: "image_generation_call",
        id: "1",
        status: "completed",
        result: JSON.stringify(part).split('"').at(-2),
      },
    ],
  },
  "messages": {
    protocol: MESSAGES_PROTOCOL,
    parts: (data) => [
      { type: "image", source: { type: "base64", media_type: "image/png", data } },
      { type: "document", source: { type: "base64", media_type: "application/pdf", data } },
      { type: "hologram", inner: [data] },
    ],
    items: (part) => [
      { role: "user", content: [{ type: "text", text: "Look." }, part] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "1", content: [part] }] },
      { role: "assistant", content: [{ type: "text", text: "Look." }, part] },
    ],
  },
};

Deno.test("all protocols read data in parts as media, count it as media, and retain results with media", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1_000, max: 400_000 }), (bytes) => {
      const data = "QUJD1GVm9+/x".repeat(bytes / 9).slice(0, 4 * Math.floor(bytes / 3));
      for (const [name, { protocol, parts, items }] of Object.entries(PROTOCOLS)) {
        for (const item of parts(data).flatMap(items)) {
          const read = protocol.readItem(item).map(({ message }) => message);
          const tokens = read.reduce((sum, message) => sum + countMessageTokens(message, estimateTokens), 0);
          const label = `${name}: ${JSON.stringify(item).slice(0, 200)}`;
          assertLess(tokens, 1_200 + data.length / 25, label);
          for (const message of read) {
            assert(!contentText(message.content).includes(data.slice(0, 100)), label);
            if (message.role === "tool") assertEquals(message.keep, true, label);
          }
        }
      }
    }),
    { numRuns: cases(4) },
  );
});
