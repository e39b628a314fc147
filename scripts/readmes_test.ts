import { assert, assertEquals } from "@std/assert";
import { PACKAGE_TABLE } from "./lint_plugin.ts";

const read = (path: string) => Deno.readTextFileSync(new URL(`../packages/${path}`, import.meta.url));

for (const [name, imports] of Object.entries(PACKAGE_TABLE)) {
  if (JSON.parse(read(`${name}/deno.json`)).publish === false) continue;
  Deno.test(`README.md of ${name} states installation, an example and allowed imports`, () => {
    const text = read(`${name}/README.md`);
    assert(text.startsWith(`# @tare/${name}\n`));
    assert(text.includes("[Installation](../../docs/own_loop.md#installation)."));
    assert(!/jsr:@tare|jsr add/.test(text), "nothing is published");
    // The suite `examples` runs them.
    assert(text.includes("```ts\n") && text.includes(`"@tare/${name}`));
    const stated = /Imports from Tare: (.*?)\./.exec(text.replaceAll(/\s+/g, " "))?.[1] ?? "";
    assertEquals([...stated.matchAll(/`(\w+)`/g)].map(([, other]) => other), [...imports]);
  });
}

for (const name of Object.keys(PACKAGE_TABLE)) {
  const { publish, exports, license } = JSON.parse(read(`${name}/deno.json`));
  if (publish === false) continue;
  Deno.test(`${name} has the files that JSR's score requires`, () => {
    assertEquals(license, "MIT");
    const entries: readonly string[] = typeof exports === "string" ? [exports] : Object.values(exports);
    for (const path of entries) {
      const [documentation = ""] = /^(?:\/\/.*\n)*\/\*\*[^]*?\*\//.exec(read(`${name}/${path}`)) ?? [];
      assert(documentation.includes("@module"), `${path} must begin with the documentation of its module`);
    }
    // The publisher sets the runtimes manually, from the README.
    const needs = /## Requirements\n\n([^]*?)\n\n/.exec(read(`${name}/README.md`))?.[1] ?? "";
    const runtimes = ["Deno", "Node", "Bun", "workerd", "browser"].filter((runtime) =>
      needs.includes(runtime)
    );
    assert(runtimes.length > 1, `README.md names ${runtimes.join(", ") || "no runtime"}`);
  });
}

/** Packages whose README examples run with real clients in another test. */
const RUN_WITH_CLIENTS: readonly string[] = JSON.parse(
  /^const PACKAGES = (\[[^]*?\]);$/m.exec(
    Deno.readTextFileSync(new URL("../tests/apart/clients/adapters/examples_test.ts", import.meta.url)),
  )![1]!.replace(/,\s*\]/, "]"),
);

const MAX_LINES = 30;

const PRUNING = ["adapters", "context", "gateway", "planner", "prune", "schemas"];

for (const name of Object.keys(PACKAGE_TABLE)) {
  if (JSON.parse(read(`${name}/deno.json`)).publish === false) continue;
  Deno.test(`README.md of ${name} begins with the main example, which a test runs`, () => {
    const [front = ""] = read(`${name}/README.md`).split("\n## ");
    const [, kind, code = ""] = /```(ts|ts ignore)\n([^]*?)```/.exec(front) ?? [];
    // The suite `examples` runs blocks that aren't ignored.
    assertEquals(kind, RUN_WITH_CLIENTS.includes(name) ? "ts ignore" : "ts");
    assert(code.split("\n").length <= MAX_LINES, `it has ${code.split("\n").length} lines`);
    assertEquals(/^Never (?:evicted|removed)[^.]*\bbecause\b/m.test(front), PRUNING.includes(name));
  });
}

/** Questions of new users: a word of README's row of the page, and text with the answer there. */
const QUESTIONS: readonly (readonly [row: string, page: string, answer: string])[] = [
  ["Ollama", "docs/providers.md", "### Ollama"],
  ["LM Studio", "docs/providers.md", "### LM Studio"],
  ["OpenRouter", "docs/providers.md", "### OpenRouter"],
  ["Azure", "docs/providers.md", "### Azure"],
  ["Gemini", "docs/providers.md", "### Gemini"],
  ["Docker", "docs/operation.md", "## Docker"],
  ["TLS", "docs/operation.md", "## TLS"],
  ["spending limits", "docs/operation.md", "## Spending limits"],
  ["eviction off", "docs/how_it_works.md", "turns eviction"],
  ["raw prompt", "docs/page.md", "raw prompt"],
  ["on Node", "docs/own_loop.md", "npm install"],
  ["Contributing", "CONTRIBUTING.md", "task test"],
];

for (const [word, page, answer] of QUESTIONS) {
  Deno.test(`README.md leads from "${word}" to ${page}`, async () => {
    const readme = await Deno.readTextFile(new URL("../README.md", import.meta.url));
    const line = readme.split("\n").find((line) => line.includes(word) && line.includes(`(${page})`));
    assert(line !== undefined, `no line of README.md names ${word} and links ${page}`);
    const text = await Deno.readTextFile(new URL(`../${page}`, import.meta.url));
    assert(text.includes(answer), `${page} lacks ${answer}`);
  });
}
