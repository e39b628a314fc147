import { assertEquals } from "@std/assert";
import { countMessageTokens, estimateTokens, pictureAt, pictureHead } from "@tare/messages";

const bytes = (...parts: readonly (string | readonly number[])[]) =>
  Uint8Array.from(
    parts.flatMap((part) => typeof part === "string" ? [...part].map((one) => one.charCodeAt(0)) : part),
  );

/** The first bytes of a picture of 640 × 480 pixels, of each kind. */
const HEADS: Readonly<Record<string, Uint8Array>> = {
  "image/png": bytes("\x89PNG\r\n\x1a\n", [0, 0, 0, 13], "IHDR", [0, 0, 2, 128, 0, 0, 1, 224]),
  "image/gif": bytes("GIF89a", [128, 2, 224, 1]),
  "image/jpeg": bytes("\xff\xd8", [0xff, 0xe0, 0, 4, 1, 2], [0xff, 0xff], [
    0xc0,
    0,
    11,
    8,
    1,
    224,
    2,
    128,
    3,
  ]),
  "image/webp": bytes("RIFF", [0, 0, 0, 0], "WEBPVP8X", [10, 0, 0, 0, 0, 0, 0, 0], [127, 2, 0, 223, 1, 0]),
};

Deno.test("pictureHead() tells kind and size by the first bytes", () => {
  for (const [type, head] of Object.entries(HEADS)) {
    assertEquals(pictureHead(head), { type, width: 640, height: 480 }, type);
    for (let length = 0; length < 20; length++) {
      const cut = pictureHead(head.subarray(0, length));
      assertEquals(cut === undefined || length >= 10, true, `${type}, ${length} bytes`);
    }
  }
  const lossless = bytes("RIFF", [0, 0, 0, 0], "WEBPVP8L", [
    0,
    0,
    0,
    0,
    0x2f,
    0x7f,
    0xc2,
    0x77,
    0,
    0,
    0,
    0,
    0,
    0,
  ]);
  assertEquals(pictureHead(lossless), { type: "image/webp", width: 640, height: 480 });
  const lossy = bytes("RIFF", [0, 0, 0, 0], "WEBPVP8 ", [0, 0, 0, 0, 0, 0, 0, 0x9d, 1, 0x2a, 128, 2, 224, 1]);
  assertEquals(pictureHead(lossy), { type: "image/webp", width: 640, height: 480 });
  assertEquals(pictureHead(bytes("%PDF-1.7 and more than enough of it")), undefined);
});

const urlOf = (type: string, head: Uint8Array) => `data:${type};base64,${btoa(String.fromCharCode(...head))}`;

Deno.test("countMessageTokens() counts a picture by its size", () => {
  const tokens = (url: string, detail?: string) => {
    const part = { type: "image_url", image_url: { url, ...(detail && { detail }) } } as const;
    return countMessageTokens({ role: "user", content: [part] }, estimateTokens) - 4;
  };
  const png = (width: number, height: number) => {
    const head = HEADS["image/png"]!.slice();
    const view = new DataView(head.buffer);
    view.setUint32(16, width);
    view.setUint32(20, height);
    return urlOf("image/png", head);
  };
  assertEquals(pictureAt(png(1, 2)), { type: "image/png", width: 1, height: 2 });
  assertEquals(tokens(png(100, 100)), 85 + 170);
  assertEquals(tokens(png(640, 480)), 85 + 2 * 170);
  // 4,096 × 2,048 fits as 2,048 × 1,024, and is then 1,536 × 768.
  assertEquals(tokens(png(4_096, 2_048)), 85 + 6 * 170);
  assertEquals(tokens(png(4_096, 2_048), "low"), 85);
  assertEquals(tokens("https://a.example/b.png"), 85 + 4 * 170);
  assertEquals(tokens("data:image/png;base64,%%%"), 85 + 4 * 170);
});
