import { assertEquals } from "@std/assert";
import { makeWorkspace } from "../fixture_test.ts";
import { IgnoreRules } from "./walk.ts";

Deno.test("IgnoreRules: the file nearest to the path decides", async () => {
  await using ws = await makeWorkspace({
    ".gitignore": "*.log\n/build/\n# comment\n!important.log\n",
    "src/.gitignore": "!kept.log\nlocal.txt\n",
    "src/deep/": "",
  });
  const top = await IgnoreRules.of(ws.root, ".");
  const ignored = (rules: IgnoreRules, paths: string[]) => paths.filter((path) => rules.ignores(path));
  assertEquals(ignored(top, ["a.log", "important.log", "build/", "build", "src/", "local.txt"]), [
    "a.log",
    "build/",
  ]);
  const inner = await top.enter(ws.root, "src/");
  assertEquals(ignored(inner, ["src/a.log", "src/kept.log", "src/local.txt", "src/build/"]), [
    "src/a.log",
    "src/local.txt",
  ]);
  const deep = await IgnoreRules.of(ws.root, "src/deep");
  assertEquals(ignored(deep, ["src/deep/a.log", "src/deep/kept.log", "src/deep/local.txt"]), [
    "src/deep/a.log",
    "src/deep/local.txt",
  ]);
});

Deno.test("IgnoreRules: rules that ignore a folder don't apply once it is entered", async () => {
  await using ws = await makeWorkspace({ ".gitignore": "vendor/\n", "vendor/.gitignore": "*.o\n" });
  const rules = await IgnoreRules.of(ws.root, "vendor");
  assertEquals(rules.ignores("vendor/a.c"), false);
  assertEquals(rules.ignores("vendor/a.o"), true);
});

Deno.test("IgnoreRules: any .gitignore is accepted, even a link or a folder", async () => {
  await using ws = await makeWorkspace({
    ".gitignore": "[\n\\\n!\n\0\n*.tmp\r\n",
    "folder/.gitignore/": "",
    "link/": "",
  });
  await Deno.writeTextFile(`${ws.outside}/rules`, "*\n");
  await Deno.symlink(`${ws.outside}/rules`, ws.at("link/.gitignore"));
  const ignores = async (folder: string, path: string) =>
    (await IgnoreRules.of(ws.root, folder)).ignores(path);
  assertEquals(await ignores(".", "a.tmp"), true);
  assertEquals(await ignores(".", "a.ts"), false);
  assertEquals(await ignores("folder", "folder/a"), false);
  assertEquals(await ignores("link", "link/a"), false);
});
