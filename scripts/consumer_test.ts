import { assertEquals, assertMatch } from "@std/assert";
import { dirname } from "@std/path";
import { consumerFault } from "./consumer.ts";
import { needs, TAR } from "../tests/needs.ts";

function member(name: string, more: object = {}): string {
  return JSON.stringify({ name, version: "0.1.0", license: "MIT", exports: "./mod.ts", ...more });
}

function example(code: string): string {
  return `# Example\n\n\`\`\`ts\n${code}\n\`\`\`\n`;
}

const WORKSPACE: Readonly<Record<string, string>> = {
  "deno.json": JSON.stringify({
    workspace: ["./one", "./two", "./hidden"],
    imports: { ignore: "npm:ignore@^7.0.16" },
    publish: { exclude: ["**/*_test.ts"] },
  }),
  "one/deno.json": member("@tare/one", { exports: { ".": "./mod.ts", "./word": "./word.ts" } }),
  "one/mod.ts": 'export { word } from "./word.ts";\n',
  "one/mod_test.ts": 'import "./none.ts";\n',
  "one/word.ts": 'export const word: string = "word";\n',
  "one/README.md": example(
    'import { word } from "@tare/one/word";\nif (word !== "word") throw new Error(word);',
  ),
  "two/deno.json": member("@tare/two"),
  "two/mod.ts": 'import { word } from "@tare/one/word";\nimport ignore from "ignore";\n' +
    "export const ignores: boolean = ignore().add(word).ignores(word);\n",
  "two/README.md": example(
    'import { ignores } from "@tare/two";\nif (!ignores) throw new Error("It isn\'t.");',
  ),
  "hidden/deno.json": member("@tare/hidden", { publish: false }),
  "hidden/mod.ts": 'export const hidden: string = "hidden";\n',
};

async function faultAfter(changes: Readonly<Record<string, string>>): Promise<string | undefined> {
  const root = await Deno.makeTempDir();
  try {
    for (const [path, text] of Object.entries({ ...WORKSPACE, ...changes })) {
      await Deno.mkdir(dirname(`${root}/${path}`), { recursive: true });
      await Deno.writeTextFile(`${root}/${path}`, text);
    }
    return await consumerFault(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test(needs(TAR, "consumerFault() returns undefined for complete packages"), async () => {
  assertEquals(await faultAfter({}), undefined);
});

const faults: readonly (readonly [what: string, changes: Readonly<Record<string, string>>, fault: RegExp])[] =
  [
    [
      "a file that is imported and not published",
      {
        "one/deno.json": member("@tare/one", {
          exports: { ".": "./mod.ts", "./word": "./word.ts" },
          publish: { exclude: ["text.ts"] },
        }),
        "one/word.ts": 'export { word } from "./text.ts";\n',
        "one/text.ts": 'export const word: string = "word";\n',
      },
      /text\.ts/,
    ],
    [
      "a file that is read when the package runs and not published",
      {
        "one/deno.json": member("@tare/one", {
          exports: { ".": "./mod.ts", "./word": "./word.ts" },
          publish: { exclude: ["word.json"] },
        }),
        "one/word.json": '"word"',
        "one/word.ts": 'const answer = await fetch(new URL("word.json", import.meta.url));\n' +
          'export const word: string = answer.ok ? "word" : `status ${answer.status}`;\n',
      },
      /status 404/,
    ],
    [
      "an import that no deno.json declares",
      { "two/mod.ts": 'import "undeclared";\n' },
      /"?undeclared"?/,
    ],
    [
      "an import of a package that isn't published",
      { "two/mod.ts": 'export { hidden as ignores } from "@tare/hidden";\n' },
      /@tare\/hidden/,
    ],
    [
      "an import that climbs out of the package",
      { "two/mod.ts": 'export { hidden as ignores } from "../hidden/mod.ts";\n' },
      /hidden\/mod\.ts/,
    ],
    [
      "types that don't hold under another project's compiler options",
      {
        "one/README.md": example(
          'const maybe: { word?: string } = {};\nfor (const letter of "word" in maybe ? maybe.word : []) letter;',
        ),
      },
      /possibly 'undefined'/,
    ],
    [
      "an example that doesn't run outside of the repository",
      { "two/README.md": example('await Deno.readTextFile("deno.json.of.the.root");') },
      /No such file/,
    ],
    [
      "tests and benchmarks that are published",
      { "one/text_bench.ts": "", "two/mod_test.ts": "" },
      /^Cannot publish tests and benchmarks: @tare\/one\/text_bench\.ts$/,
    ],
    [
      "a workspace that publishes nothing",
      {
        "one/deno.json": member("@tare/one", { publish: false }),
        "two/deno.json": member("@tare/two", { publish: false }),
      },
      /^error/,
    ],
  ];

for (const [what, changes, fault] of faults) {
  Deno.test(needs(TAR, `consumerFault() reports ${what}`), async () => {
    assertMatch(await faultAfter(changes) ?? "", fault);
  });
}
