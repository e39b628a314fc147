import { assertEquals } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { countingImages, countMessageTokens, imageHead } from "@tare/messages/internal";

const bytes = (...parts: readonly (string | readonly number[])[]) =>
  Uint8Array.from(
    parts.flatMap((part) => typeof part === "string" ? [...part].map((one) => one.charCodeAt(0)) : part),
  );

/** Headers of 640 × 480 images, by format. */
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

Deno.test("imageHead() returns type and size from the first bytes", () => {
  for (const [type, head] of Object.entries(HEADS)) {
    assertEquals(imageHead(head), { type, width: 640, height: 480 }, type);
    for (let length = 0; length < 20; length++) {
      const cut = imageHead(head.subarray(0, length));
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
  assertEquals(imageHead(lossless), { type: "image/webp", width: 640, height: 480 });
  const lossy = bytes("RIFF", [0, 0, 0, 0], "WEBPVP8 ", [0, 0, 0, 0, 0, 0, 0, 0x9d, 1, 0x2a, 128, 2, 224, 1]);
  assertEquals(imageHead(lossy), { type: "image/webp", width: 640, height: 480 });
  assertEquals(imageHead(bytes("%PDF-1.7 and more than enough of it")), undefined);
});

Deno.test("countingImages() counts an image by the size in its first bytes", () => {
  const count = countingImages(estimateTokens);
  const tokens = (url: string, detail?: string) => {
    const part = { type: "image_url", image_url: { url, ...(detail && { detail }) } } as const;
    return countMessageTokens({ role: "user", content: [part] }, count) - 4;
  };
  const urlOf = (head: Uint8Array) => `data:image/x;name=a;base64,${btoa(String.fromCharCode(...head))}`;
  const png = (width: number, height: number) => {
    const head = HEADS["image/png"]!.slice();
    const view = new DataView(head.buffer);
    view.setUint32(16, width);
    view.setUint32(20, height);
    return urlOf(head);
  };
  const sizes = [[1, 1], [512, 512], [1280, 720], [1920, 1080], [1080, 1920], [4096, 2048], [
    100_000,
    1,
  ]] as const;
  assertEquals(sizes.map(([width, height]) => (tokens(png(width, height)) - 85) / 170), [
    1,
    1,
    6,
    6,
    6,
    6,
    4,
  ]);
  for (const head of Object.values(HEADS)) assertEquals(tokens(urlOf(head)), 85 + 2 * 170);
  // Camera metadata before the size.
  const comment = bytes(
    "\xff\xd8",
    [0xff, 0xe1, 0x40, 0x00],
    Array(0x3ffe).fill(7),
    [...HEADS["image/jpeg"]!].slice(2),
  );
  assertEquals(tokens(urlOf(comment)), 85 + 2 * 170);
  assertEquals(tokens(png(4096, 2048), "low"), 85);
  for (const url of [png(0, 1), "https://a.example/b.png", "data:image/png;base64,%%%", "data:image/png,x"]) {
    assertEquals(tokens(url), 765);
  }
  assertEquals(count("four and four"), 4);
});
