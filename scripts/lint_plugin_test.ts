import { assertEquals } from "@std/assert";
import plugin, { PACKAGE_TABLE, PORTABLE_PACKAGES, PURE_PACKAGES } from "./lint_plugin.ts";

function faults(filename: string, source: string): string[] {
  return Deno.lint.runPlugin(plugin, filename, source).map((diagnostic) => diagnostic.message);
}

Deno.test("package-table allows what ARCHITECTURE.md's table allows and refuses the rest", () => {
  const refused: string[] = [];
  for (const from of Object.keys(PACKAGE_TABLE)) {
    for (const to of Object.keys(PACKAGE_TABLE)) {
      const found = faults(`/repo/packages/${from}/x.ts`, `import "@tare/${to}";`);
      if (found.length > 0) refused.push(`${from} → ${to}`);
      assertEquals(found.length === 0, from === to || PACKAGE_TABLE[from]!.includes(to));
    }
  }
  assertEquals(refused.includes("messages → loop") && refused.includes("server → app"), true);
});

Deno.test("package-table sees re-exports, dynamic imports, subpaths and paths that leave the package", () => {
  const file = "/repo/packages/context/x.ts";
  for (
    const source of [
      'export * from "@tare/prune";',
      'export { a } from "@tare/prune/sub";',
      'const m = await import("@tare/prune");',
      'import "../prune/mod.ts";',
    ]
  ) assertEquals(faults(file, source).length, 1, source);
  assertEquals(faults("/repo/packages/context/deep/x.ts", 'import "../y.ts";'), []);
  assertEquals(faults("/repo/packages/context/x_test.ts", 'import "../../tests/conversations.ts";'), []);
  assertEquals(faults("/repo/scripts/x.ts", 'import "@tare/app";'), []);
  const client = 'import "../server/client.ts";';
  const users = Object.keys(PACKAGE_TABLE).filter((name) =>
    faults(`/repo/packages/${name}/x.ts`, client).length === 0
  );
  assertEquals(users, ["page", "cli"]);
});

Deno.test("package-table lets only one file import OpenTelemetry, except in tests", () => {
  const source = 'import { trace } from "@opentelemetry/api";';
  const found = Object.keys(PACKAGE_TABLE).flatMap((name) =>
    [`${name}/x.ts`, `${name}/telemetry.ts`].filter((path) =>
      faults(`/repo/packages/${path}`, source).length === 0
    )
  );
  assertEquals(found, ["session/telemetry.ts"]);
  assertEquals(faults("/repo/packages/server/x_test.ts", source), []);
});

Deno.test("pure-packages refuses clock, files, network, environment and randomness in pure packages only", () => {
  const impure = [
    'import "node:fs";',
    "Date.now();",
    "new Date();",
    "performance.now();",
    'fetch("x");',
    "setTimeout(f, 1);",
    "Math.random();",
    "crypto.randomUUID();",
  ];
  for (const name of Object.keys(PACKAGE_TABLE)) {
    const found = impure.map((source) => faults(`/repo/packages/${name}/x.ts`, source).length);
    assertEquals(found, impure.map(() => PURE_PACKAGES.includes(name) ? 1 : 0), name);
  }
  assertEquals(faults("/repo/packages/messages/x_test.ts", "Deno.cwd();"), []);
  assertEquals(faults("/repo/packages/messages/x.ts", "profile.Date; ({ fetch: 1 });"), []);
});

Deno.test("portable-packages refuses what Node lacks in portable packages, except in tests", () => {
  const lacking = ["Deno.cwd();", "using a = b;", "await using a = b;"];
  for (const name of Object.keys(PACKAGE_TABLE)) {
    const found = lacking.map((source) => faults(`/repo/packages/${name}/x.ts`, source).length);
    const expected = lacking.map((source) =>
      PORTABLE_PACKAGES.includes(name) || (PURE_PACKAGES.includes(name) && source.startsWith("Deno")) ? 1 : 0
    );
    assertEquals(found, expected, name);
  }
  assertEquals(faults("/repo/packages/session/store/x_test.ts", lacking.join("\n")), []);
});

Deno.test("protocol-names keeps a protocol's fields in its folder", () => {
  const source =
    'const id = item.call_id; const type = "input_text"; const field = { previous_response_id: 1 };';
  assertEquals(faults("/repo/packages/gateway/x.ts", source).length, 3);
  assertEquals(faults("/repo/packages/wire/responses/x.ts", source), []);
  assertEquals(faults("/repo/packages/gateway/x_test.ts", source), []);
  assertEquals(faults("/repo/packages/loop/x.ts", 'const stop = { finish_reason: "tool_calls" };'), []);
});

Deno.test("provider-names keeps names of providers in the file of their data", () => {
  for (
    const source of [
      'profileNamed("openai");',
      "/claude/i.test(model);",
      'type Dialect = "deepseek" | "other";',
    ]
  ) {
    assertEquals(faults("/repo/packages/gateway/x.ts", source).length, 1, source);
    assertEquals(faults("/repo/packages/planner/providers.ts", source), []);
  }
  for (
    const source of [
      'import "@tare/loop/openai";',
      'throw new Error("any openai client");',
      'get("OPENAI_KEY");',
    ]
  ) {
    assertEquals(faults("/repo/packages/app/x.ts", source), [], source);
  }
});

Deno.test("PACKAGE_TABLE and PURE_PACKAGES match ARCHITECTURE.md", () => {
  const text = Deno.readTextFileSync(new URL("../ARCHITECTURE.md", import.meta.url));
  const names = Object.keys(PACKAGE_TABLE);
  const table = [...text.matchAll(/^\| `(\w+)` +\|.*\| (.*?) +\|$/gm)].map(([, name = "", cell = ""]) => {
    const all = cell === "all"
      ? names
      : cell === "all but `app`"
      ? names.filter((other) => other !== "app")
      : undefined;
    return [
      name,
      all?.filter((other) => other !== name) ?? [...cell.matchAll(/`(\w+)`/g)].map(([, to]) => to),
    ];
  });
  assertEquals(Object.fromEntries(table), PACKAGE_TABLE);
  assertEquals(table.slice(0, PURE_PACKAGES.length).map(([name]) => name), [...PURE_PACKAGES]);
});

Deno.test("stated-needs refuses a test that is ignored without a reason, and cases of another seed", () => {
  const refused = [
    'Deno.test({ name: "a", ignore: true, fn() {} });',
    'Deno.test("a", { ignore: isMissing }, () => {});',
    'await t.step({ name: "a", ignore, fn() {} });',
    'import fc from "fast-check";',
  ];
  for (const source of refused) assertEquals(faults("/repo/tests/a_test.ts", source).length, 1, source);
  const allowed = [
    'Deno.test(needs(LINUX, "a"), () => {});',
    'spawn("a", { ignore: true });',
    'import fc from "./cases.ts";',
  ];
  for (const source of allowed) assertEquals(faults("/repo/tests/a_test.ts", source), [], source);
  assertEquals(faults("/repo/tests/cases.ts", 'import fc from "fast-check";'), []);
});

Deno.test("standard-english refuses comments that open with a pronoun, and words without a meaning in the field", () => {
  const refused = [
    "/** What it returns. */",
    "// Of these, the newest.",
    "/**\n * Whoever calls it.\n */",
    "// So many at most.",
    "/** Returns it anew. */",
    "// Called by nobody.",
    "/** The file beside it. */",
  ];
  for (const source of refused) assertEquals(faults("/repo/packages/loop/a.ts", source).length, 1, source);
  const allowed = [
    "/** Returns `nobody`. */",
    "// Besides, it is retried.",
    "/** Whatsoever */",
    'const text = "What now?";',
  ];
  for (const source of allowed) assertEquals(faults("/repo/packages/loop/a.ts", source), [], source);
});
