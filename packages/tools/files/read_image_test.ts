import { assertEquals, assertMatch } from "@std/assert";
import { readFileTool } from "./read_file_tool.ts";
import { call, callError, callOk, context, makeWorkspace } from "../fixture_test.ts";

function png(width: number, height: number, length = 24): Uint8Array {
  const bytes = new Uint8Array(length);
  bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52]);
  const view = new DataView(bytes.buffer);
  view.setUint32(16, width);
  view.setUint32(20, height);
  return bytes;
}

Deno.test("read_file returns an image to a model that accepts images, and describes it to others", async () => {
  await using ws = await makeWorkspace({
    "a.png": png(640, 480),
    "b.PNG": "no picture\n",
    "c.bin": png(640, 480),
  });
  const read = readFileTool(ws.root);
  const seeing = { ...context, supportsImages: true };
  assertEquals(await call(read, { path: "a.png" }, seeing), {
    content: "PNG image of 640×480 pixels, 24 bytes",
    error: false,
    images: [`data:image/png;base64,${btoa(String.fromCharCode(...png(640, 480)))}`],
  } as Awaited<ReturnType<typeof call>>);
  assertEquals(
    await callError(read, { path: "a.png" }),
    'Cannot read "a.png": it is a PNG image of 640×480 pixels, 24 bytes, and this model accepts no images.',
  );
  assertEquals(await callOk(read, { path: "b.PNG" }), "lines 1-1 of 1\nno picture");
  assertMatch((await call(read, { path: "c.bin" }, seeing)).content, /it is a binary file/);
});

Deno.test("read_file returns images among several files, up to the size of one call", async () => {
  const large = png(10, 10, 2_000_000);
  await using ws = await makeWorkspace({
    "a.png": png(640, 480),
    "b.txt": "b\n",
    "c.png": large,
    "d.png": large,
  });
  const read = readFileTool(ws.root);
  const also = ["b.txt", "c.png", "d.png"].map((path) => ({ path }));
  const { content, images, error } = await call(read, { path: "a.png", also }, {
    ...context,
    supportsImages: true,
  }) as { content: string; images?: readonly string[]; error: boolean };
  assertEquals(content.split("\n"), [
    "==> a.png <== PNG image of 640×480 pixels, 24 bytes",
    "==> b.txt <== lines 1-1 of 1",
    "b",
    "==> c.png <== PNG image of 10×10 pixels, 2000000 bytes",
    '==> d.png <== Cannot read "d.png": the images of one call may have 3750000 bytes in all. Read it in another ' +
    "call.",
  ]);
  assertEquals([error, images?.map(({ length }) => length)], [false, [54, 2_666_690]]);
  assertMatch(
    (await callOk(read, { path: "a.png", also })).split("\n")[0]!,
    /^==> a.png <== Cannot read "a.png": /,
  );
});

Deno.test("read_file rejects an image that providers reject, and suggests a smaller copy", async () => {
  await using ws = await makeWorkspace({ "wide.png": png(9_000, 10), "long.png": png(10, 10, 4_000_000) });
  const read = readFileTool(ws.root);
  for (
    const [path, what] of [["wide.png", "9000×10 pixels, 24 bytes"], [
      "long.png",
      "10×10 pixels, 4000000 bytes",
    ]]
  ) {
    const { content } = await call(read, { path }, { ...context, supportsImages: true });
    assertEquals(
      content,
      `Cannot read "${path}": it is a PNG image of ${what}; at most 3750000 bytes and 8000 pixels a side can be shown. ` +
        "Make a smaller copy with shell, such as magick a.png -resize 1600x1600 b.png.",
    );
  }
});
