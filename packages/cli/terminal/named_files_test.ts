import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { completeFile, withImages } from "./named_files.ts";

/** Creates a folder with these files. */
async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(folder, path), text);
  }
  return folder;
}

Deno.test("completeFile() completes words that begin with @", async () => {
  const requests: unknown[] = [];
  const complete = (line: string) =>
    completeFile(line, (...search) => {
      requests.push(search);
      return Promise.resolve(["src/a.ts", "src/two words.ts", "src/\x1b[2J"]);
    });
  const all = ["@src/a.ts", '@"src/two words.ts"'];
  assertEquals(await complete("see @s"), { typed: "@s", all });
  assertEquals(await complete("@"), { typed: "@", all });
  assertEquals(await complete('@"src/two w'), { typed: '@"src/two w', all });
  for (const line of ["me@s", "s", "", "@s ", '@"a b" c']) {
    assertEquals(await complete(line), { typed: "", all: [] });
  }
  assertEquals(requests, [["s", 50], ["", 50], ["src/two w", 50]]);
});

Deno.test("withImages() attaches named images, and only names other files", async () => {
  const folder = await folderWith({ "a.PNG": "png", "b c.jpg": "jpg", "d.ts": "code", "huge.gif": "" });
  await Deno.truncate(join(folder, "huge.gif"), 5 * 2 ** 20 + 1);
  for (const name of ["e.webp", "f.webp"]) {
    await Deno.writeTextFile(join(folder, name), "");
    await Deno.truncate(join(folder, name), 4 * 2 ** 20);
  }
  const say = (text: string) => withImages(text, { folder });
  const text = `Compare @a.PNG, @"b c.jpg" and @${folder}/a.PNG with @d.ts, me@a.PNG, @none.png.`;
  const image = (url: string) => ({ type: "image_url", image_url: { url } }) as const;
  assertEquals(await say(text), [
    { type: "text", text },
    image(`data:image/png;base64,${btoa("png")}`),
    image(`data:image/jpeg;base64,${btoa("jpg")}`),
    image(`data:image/png;base64,${btoa("png")}`),
  ]);
  assertEquals(await say("@d.ts"), "@d.ts");
  assertEquals(await withImages("@a.PNG", {}), "@a.PNG");
  await assertRejects(
    () => say("@huge.gif"),
    Error,
    "Cannot attach huge.gif: it has 5242881 bytes, and the limit is 5242880.",
  );
  await assertRejects(
    () => say("@e.webp @f.webp"),
    Error,
    "Cannot attach f.webp: the images of one message exceed 7 MiB.",
  );
  await Deno.remove(folder, { recursive: true });
});
