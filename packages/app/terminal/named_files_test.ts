import { assertEquals, assertRejects } from "@std/assert";
import { workspaceTools } from "@tare/loop/tools";
import { join } from "@std/path";
import { fileCompleter, withPictures } from "./named_files.ts";

/** A folder with these files. */
async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(folder, path), text);
  }
  return folder;
}

Deno.test("fileCompleter() completes what list_files shows: by folder first, then by a part of the name", async () => {
  const folder = await folderWith({
    ".gitignore": "built\n",
    ".env": "",
    "built/out.ts": "",
    "src/read_file.ts": "",
    "src/deep/write_file.ts": "",
    "src/two words.ts": "",
    "story[1].md": "",
  });
  let asked = 0;
  const complete = fileCompleter(() => {
    asked++;
    return Promise.resolve(
      workspaceTools({ workspace: folder }).find(({ definition }) =>
        definition.function.name === "list_files"
      )!,
    );
  });
  const all = async (line: string) => (await complete(line)).all;
  assertEquals(await complete("see @s"), { typed: "@s", all: ["@src/", "@story[1].md"] });
  assertEquals(await all("@src/re"), ["@src/read_file.ts"]);
  assertEquals(await all("@src/"), ["@src/deep/", "@src/read_file.ts", '@"src/two words.ts"']);
  assertEquals(await complete('@"src/two w'), { typed: '@"src/two w', all: ['@"src/two words.ts"'] });
  assertEquals(await all("@_file"), ["@src/deep/write_file.ts", "@src/read_file.ts"]);
  assertEquals(await all("@deep/wri"), ["@src/deep/write_file.ts"]);
  assertEquals(await all("@story[1]"), ["@story[1].md"]);
  assertEquals(await all("@.e"), ["@.env"]);
  for (const line of ["@out", "@../", "@nowhere/x", "me@s", "s", "@src/ "]) assertEquals(await all(line), []);
  assertEquals(asked, 1);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("withPictures() sends the pictures that are named, and only names other files", async () => {
  const folder = await folderWith({ "a.PNG": "png", "b c.jpg": "jpg", "d.ts": "code", "huge.gif": "" });
  await Deno.truncate(join(folder, "huge.gif"), 5 * 2 ** 20 + 1);
  for (const name of ["e.webp", "f.webp"]) {
    await Deno.writeTextFile(join(folder, name), "");
    await Deno.truncate(join(folder, name), 4 * 2 ** 20);
  }
  const say = (text: string) => withPictures(text, { folder });
  const text = `Compare @a.PNG, @"b c.jpg" and @${folder}/a.PNG with @d.ts, me@a.PNG, @none.png.`;
  const picture = (url: string) => ({ type: "image_url", image_url: { url } }) as const;
  assertEquals(await say(text), [
    { type: "text", text },
    picture(`data:image/png;base64,${btoa("png")}`),
    picture(`data:image/jpeg;base64,${btoa("jpg")}`),
    picture(`data:image/png;base64,${btoa("png")}`),
  ]);
  assertEquals(await say("@d.ts"), "@d.ts");
  assertEquals(await withPictures("@a.PNG", {}), "@a.PNG");
  await assertRejects(
    () => say("@huge.gif"),
    Error,
    "Cannot send huge.gif: it has 5242881 bytes, and a picture may have 5242880.",
  );
  await assertRejects(
    () => say("@e.webp @f.webp"),
    Error,
    "Cannot send f.webp: the pictures of one message may have 7 MiB together.",
  );
  await Deno.remove(folder, { recursive: true });
});
