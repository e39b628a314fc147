import { assertEquals } from "@std/assert";
import { importGraph, sourceFaults } from "./source_rules.ts";

const ENTRIES = new Map([["@tare/a", "packages/a/mod.ts"], ["@tare/b/deep", "packages/b/deep.ts"]]);

function filesOf(texts: Readonly<Record<string, string>>) {
  return Object.entries(texts).map(([path, text]) => ({ path, text }));
}

function faults(texts: Readonly<Record<string, string>>): string[] {
  return sourceFaults(filesOf(texts), ENTRIES);
}

Deno.test("importGraph() includes imports, re-exports and dynamic imports of source files, but not of examples", () => {
  const graph = importGraph(
    filesOf({
      "packages/a/mod.ts": 'export * from "./x/one.ts";\nexport {\n  two,\n} from "./two.ts";\n',
      "packages/a/x/one.ts": '/**\n * import "./three.ts";\n */\nimport type { Two } from "../two.ts";\n',
      "packages/a/x/three.ts": 'import * as deep from "@tare/b/deep";\n// import "@tare/a";\n',
      "packages/a/two.ts": 'const three = await import("./x/three.ts");\nimport "npm:other";\n',
      "packages/a/two_test.ts": 'import "./x/one.ts";\n',
      "packages/b/deep.ts": 'import { two } from "@tare/a";\nimport "./missing.ts";\n',
      "scripts/ok.ts": 'import "../packages/a/two.ts";\n',
    }),
    ENTRIES,
  );
  assertEquals([...graph].map(([path, imported]) => [path, ...imported]), [
    ["packages/a/mod.ts", "packages/a/x/one.ts", "packages/a/two.ts"],
    ["packages/a/x/one.ts", "packages/a/two.ts"],
    ["packages/a/x/three.ts", "packages/b/deep.ts"],
    ["packages/a/two.ts", "packages/a/x/three.ts"],
    ["packages/b/deep.ts", "packages/a/mod.ts"],
  ]);
});

Deno.test("sourceFaults() reports type cycles of more than three files", () => {
  const circle = (name: string, size: number) =>
    Object.fromEntries(Array.from({ length: size }, (_, at) => [
      `packages/a/${name}${at}.ts`,
      `import type { T } from "./${name}${(at + 1) % size}.ts";\n`,
    ]));
  // Files that lead into or out of a cycle aren't part of it.
  const more = { "packages/a/mod.ts": 'export * from "./x0.ts";\n' };
  assertEquals(faults({ ...more, ...circle("x", 3), ...circle("y", 3) }), []);
  const files = { ...more, ...circle("x", 4), ...circle("y", 5) };
  const five = "5 files import each other in a cycle, more than 3: " +
    "packages/a/y0.ts, packages/a/y1.ts, packages/a/y2.ts, packages/a/y3.ts, packages/a/y4.ts.";
  const four = "4 files import each other in a cycle, more than 3: " +
    "packages/a/x0.ts, packages/a/x1.ts, packages/a/x2.ts, packages/a/x3.ts.";
  assertEquals(faults(files), [five, four]);
});

Deno.test("sourceFaults() reports names exported by several files, except overloads and tests", () => {
  const files = {
    "packages/a/mod.ts": 'export { Keeper } from "./keeper.ts";\nexport type { Place } from "./place.ts";\n',
    "packages/a/keeper.ts": "export abstract class Keeper {}\nexport const place = 1;\n",
    "packages/a/place.ts": "/**\n * export class Keeper {}\n */\nexport interface Place {}\n",
    "packages/b/keeper.ts": "export interface Keeper {}\nexport async function* place() {}\nclass Place {}\n",
    "packages/b/over.ts": "export function over(a: 1): void;\nexport function over(a: 2): void;\n",
    "packages/b/keeper_test.ts": "export const Place = 1;\n",
    "scripts/place.ts": "export const place = 1;\n",
  };
  const keeper = "Keeper is exported with different meanings by " +
    "packages/a/keeper.ts, packages/b/keeper.ts: rename all but one.";
  assertEquals(faults(files), [keeper, keeper.replace("Keeper", "place")]);
});

Deno.test("sourceFaults() reports public fields assigned by files that import their owner", () => {
  const uses = 'import { A } from "./a.ts";\n';
  const files = {
    "packages/a/a.ts": `export class A {
  open = 1;
  counted?: number;
  override flag: boolean;
  read: number;
  readonly fixed: number;
  private hidden: number;
  static total = 0;
  #own = 1;
  get length(): number {
    return this.#own;
  }
  method(): void {
    this.#own = 2;
    this.open = 3;
  }
}
export interface Shape {
  text: string;
  readonly other: string;
  call(name: string): void;
}
class Empty extends Error {}
interface Local {
  local: string;
}
`,
    "packages/a/assigns.ts": `${uses}a.open = 2;
a.counted++;
this.flag = true;
(a.read === 1) || a.read >= 2 && ((x) => a.read)();
a.fixed = a.hidden = 3;
a.total += 1;
a.length = 1;
a.local = "";
`,
    "packages/a/mod.ts": 'export * from "./a.ts";\n',
    "packages/b/other.ts": 'import "@tare/a";\nb!.a.open ??= 1;\ndelete shape.text;\n',
    "packages/a/through.ts": 'import "./assigns.ts";\na.flag = 1;\n',
    "packages/a/alone.ts": "other.flag = 1;\nother.local = 1;\n",
    "packages/a/a_test.ts": `${uses}a.flag = 1;\n`,
  };
  const end = ": make it #private or readonly, and change it by a method.";
  const found = [
    `A.open of packages/a/a.ts is assigned in packages/a/assigns.ts, packages/b/other.ts${end}`,
    `A.counted of packages/a/a.ts is assigned in packages/a/assigns.ts${end}`,
    `Shape.text of packages/a/a.ts is assigned in packages/b/other.ts${end}`,
  ];
  assertEquals(faults(files), found);
});
