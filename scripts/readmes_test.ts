import { assert, assertEquals } from "@std/assert";
import { PACKAGE_TABLE } from "./lint_plugin.ts";

const read = (path: string) => Deno.readTextFileSync(new URL(`../packages/${path}`, import.meta.url));

for (const [name, imports] of Object.entries(PACKAGE_TABLE)) {
  if (JSON.parse(read(`${name}/deno.json`)).publish === false) continue;
  Deno.test(`README.md of ${name} says how to install it, shows it and names what it may import`, () => {
    const text = read(`${name}/README.md`);
    assert(text.startsWith(`# @tare/${name}\n`));
    assert(text.includes(`deno add jsr:@tare/${name}\n`));
    // Its examples run in the suite, as everywhere.
    assert(text.includes("```ts\n") && text.includes(`"@tare/${name}`));
    const told = /Of Tare's packages it may import (.*?)\./.exec(text.replaceAll(/\s+/g, " "))?.[1] ?? "";
    assertEquals([...told.matchAll(/`(\w+)`/g)].map(([, other]) => other), [...imports]);
  });
}
