import { differing, number, pick, shuffled, type Task, words } from "../task.ts";
import { found, hits, whole, work } from "../worker.ts";

const PACKAGE = '{ "type": "module" }\n';

const SLIPS: readonly (readonly [wrong: string, right: string])[] = [
  ["for (let at = 1; at < items.length; at++)", "for (let at = 0; at < items.length; at++)"],
  ["for (let at = 0; at < items.length - 1; at++)", "for (let at = 0; at < items.length; at++)"],
  ["cents = items[at].cents * items[at].count", "cents += items[at].cents * items[at].count"],
];

function cart([wrong, right]: (typeof SLIPS)[number], isRight: boolean): string {
  const lines = [
    "/** What a cart costs, in cents. */",
    "export function total(items) {",
    "  let cents = 0;",
    "  for (let at = 0; at < items.length; at++) {",
    "    cents += items[at].cents * items[at].count;",
    "  }",
    "  return cents;",
    "}",
    "",
  ].join("\n");
  return isRight ? lines : lines.replace(right, wrong);
}

const FIX_A_BUG: Task = {
  name: "fix a bug in one file",
  make(random) {
    const slip = pick(SLIPS, random);
    const [a, b, c] = [number(2, 90, random), number(2, 90, random), number(2, 90, random)];
    const test = (sum: number) =>
      [
        'import { total } from "./src/cart.js";',
        `const sum = total([{ cents: ${a}, count: 2 }, { cents: ${b}, count: 1 }, { cents: ${c}, count: 3 }]);`,
        `if (sum !== ${sum}) throw new Error(\`total() gives \${sum} in place of ${sum}\`);`,
        "",
      ].join("\n");
    const right = 2 * a + b + 3 * c;
    const files = {
      "package.json": PACKAGE,
      "src/cart.js": cart(slip, false),
      "src/names.js": 'export const NAMES = ["cart", "total"];\n',
      "test.js": test(right),
    };
    return {
      files,
      question: ["`node test.js` fails. Find out why and fix it in src."],
      fault: async ({ files: left, run }) =>
        differing({ ...left, "src/cart.js": "" }, { ...files, "src/cart.js": "" }) ??
          await run(
            'import { total } from "./src/cart.js";' +
              "const item = (cents, count) => ({ cents, count });" +
              'if (total([]) !== 0 || total([item(7, 2)]) !== 14 || total([item(5, 1), item(1, 4)]) !== 9) throw "sums are wrong";',
          ),
      wrong: {
        // The test agrees with the wrong code.
        files: {
          "test.js": test(
            slip[0].startsWith("cents") ? 3 * c : slip[0].includes("= 1") ? b + 3 * c : 2 * a + b,
          ),
        },
      },
    };
  },
  turns: [function* () {
    yield* work({ run: "node test.js" }, { read: "test.js" });
    const source = yield* work({ read: "src/cart.js" });
    const slip = SLIPS.find(([wrong]) => source.includes(wrong));
    if (!slip) return "I see nothing wrong.";
    yield* work({ edit: "src/cart.js", old: slip[0], now: slip[1] });
    const ended = yield* work({ run: "node test.js && echo passes" });
    return /passes/.test(ended) ? `src/cart.js was wrong: ${slip[0]}. The test passes.` : "It fails still.";
  }],
};

function layers(fields: readonly string[], added?: { readonly field: string; readonly fallback: string }) {
  const all = added ? [fields[0]!, fields[1]!, added.field, ...fields.slice(2)] : fields;
  const value = (from: string, name: string) =>
    `${from}.${name}${
      name === added?.field && from === "given" ? ` ?? ${JSON.stringify(added.fallback)}` : ""
    }`;
  return {
    "src/schema.js": `/** All fields, in their order. */\nexport const FIELDS = ${JSON.stringify(all)};\n`,
    "src/store.js": `export function row(given) {\n  return {\n${
      all.map((name) => `    ${name}: ${value("given", name)},\n`).join("")
    }  };\n}\n`,
    "src/api.js": `export function toJson(row) {\n  return {\n${
      all.map((name) => `    ${name}: ${value("row", name)},\n`).join("")
    }  };\n}\n`,
    "src/view.js": `export function line(json) {\n  return [\n${
      all.map((name) => `    ${value("json", name)},\n`).join("")
    }  ].join(" | ");\n}\n`,
  };
}

const ADD_A_FIELD: Task = {
  name: "add a field through four layers",
  make(random) {
    const [first, second, third, field, fallback] = words(5, random) as [
      string,
      string,
      string,
      string,
      string,
    ];
    const fields = [first, second, third];
    const right = { "package.json": PACKAGE, ...layers(fields, { field, fallback }) };
    return {
      files: { "package.json": PACKAGE, ...layers(fields) },
      question: [
        `Add a field "${field}" behind "${second}" in all layers: schema, store, api and view. Where src/store.js isn't given one, it is "${fallback}".`,
      ],
      fault: ({ run }) =>
        run(
          'import { FIELDS } from "./src/schema.js"; import { row } from "./src/store.js";' +
            'import { toJson } from "./src/api.js"; import { line } from "./src/view.js";' +
            `const shown = (given) => line(toJson(row({ ${first}: 1, ${second}: 2, ${third}: 3, ...given })));` +
            `const all = [FIELDS.join(), Object.keys(row({})).join(), Object.keys(toJson({})).join()];` +
            `if (all.some((names) => names !== "${first},${second},${field},${third}")) throw all.join("; ");` +
            `if (shown({}) !== "1 | 2 | ${fallback} | 3") throw shown({});` +
            `if (shown({ ${field}: "x" }) !== "1 | 2 | x | 3") throw shown({ ${field}: "x" });`,
        ),
      wrong: { files: { ...right, "src/view.js": layers(fields)["src/view.js"] } },
    };
  },
  turns: [function* (question) {
    const [, field, before, fallback] = /field "(\w+)" behind "(\w+)".* it is "(\w+)"/.exec(question)!;
    const matches = yield* work({ read: "src/schema.js" }, { read: "src/store.js" }, { read: "src/api.js" }, {
      read: "src/view.js",
    });
    const behind = yield* found(matches, new RegExp(`"${before}","(\\w+)"`));
    const between = (line: (name: string) => string, added = line(field!)) => ({
      old: `${line(before!)}${line(behind)}`,
      now: `${line(before!)}${added}${line(behind)}`,
    });
    const given = `    ${field}: given.${field} ?? "${fallback}",\n`;
    yield* work(
      { edit: "src/schema.js", old: `"${before}","${behind}"`, now: `"${before}","${field}","${behind}"` },
      { edit: "src/store.js", ...between((name) => `    ${name}: given.${name},\n`, given) },
      { edit: "src/api.js", ...between((name) => `    ${name}: row.${name},\n`) },
      { edit: "src/view.js", ...between((name) => `    json.${name},\n`) },
    );
    return `All four layers have ${field}.`;
  }],
};

interface Format {
  readonly sign: string;
  readonly group: number;
  readonly between: string;
  readonly zero: string;
}

function formatter({ sign, group, between, zero }: Format, negative: string): string {
  return [
    "export function format(amount) {",
    `  if (amount === 0) return ${JSON.stringify(zero)};`,
    '  let digits = String(Math.abs(amount)), grouped = "";',
    `  while (digits.length > ${group}) {`,
    `    grouped = ${JSON.stringify(between)} + digits.slice(-${group}) + grouped;`,
    `    digits = digits.slice(0, -${group});`,
    "  }",
    `  const text = ${JSON.stringify(sign)} + digits + grouped;`,
    `  return amount < 0 ? ${negative} : text;`,
    "}",
    "",
  ].join("\n");
}

const WRITE_FROM_SPEC: Task = {
  name: "write a function from its specification",
  make(random) {
    const [sign, zero] = words(2, random) as [string, string];
    const format = {
      sign: sign.toUpperCase(),
      group: number(2, 5, random),
      between: pick(["'", "_", "."], random),
      zero,
    };
    const files = {
      "package.json": PACKAGE,
      "spec.md": [
        "# format(amount)",
        "",
        "Writes a whole number as people read it here. `src/format.js` exports it.",
        "",
        `- In front stands \`${format.sign}\`, without a space.`,
        `- Digits stand in groups of ${format.group}, from the right, with \`${format.between}\` between two groups.`,
        `- Zero is \`${format.zero}\`, with nothing in front.`,
        "- A negative number has no minus: the whole of it stands in round brackets.",
        "",
      ].join("\n"),
      "src/index.js": 'export { format } from "./format.js";\n',
    };
    return {
      files,
      question: ["Write src/format.js as spec.md says."],
      fault: ({ run }) =>
        run(
          'import { format } from "./src/index.js";' +
            formatter(format, '"(" + text + ")"').replace("export function format", "function right") +
            "for (const amount of [0, 1, -1, 99, 1234, -56789, 100000, 9876543210]) {" +
            "  if (format(amount) !== right(amount)) throw `${amount} gives ${format(amount)}`; }",
        ),
      wrong: { files: { "src/format.js": formatter(format, '"-" + text') } },
    };
  },
  turns: [function* () {
    const spec = yield* work({ read: "spec.md" }, { read: "src/index.js" });
    const format = {
      sign: yield* found(spec, /In front stands `([^`]+)`/),
      group: Number(yield* found(spec, /groups of (\d+)/)),
      between: yield* found(spec, /with `([^`]+)` between/),
      zero: yield* found(spec, /Zero is `([^`]+)`/),
    };
    yield* work({ write: "src/format.js", text: formatter(format, '"(" + text + ")"') });
    const tried = yield* work({
      run: `node -e 'import("./src/index.js").then(({ format }) => console.log(format(-1)))'`,
    });
    return `format(-1) gives ${/\(.*\)/.exec(tried)?.[0] ?? "an error"}.`;
  }],
};

const CONVERT = [
  'import { readFileSync, writeFileSync } from "node:fs";',
  'const [head, ...rows] = readFileSync("people.csv", "utf8").trimEnd().split("\\n").map((line) =>',
  '  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) =>',
  "    quoted === undefined ? plain : quoted.replaceAll('\"\"', '\"')));",
  "const people = rows.map((row) => Object.fromEntries(row.map((value, at) =>",
  '  [head[at], head[at] === "cents" ? Number(value) : value])));',
  'writeFileSync("people.json", JSON.stringify(people));',
  "",
].join("\n");

const CSV_TO_JSON: Task = {
  name: "turn a table with quotes into JSON",
  make(random) {
    const people = words(30, random).map((name, at) => ({
      name: at % 5 === 2 ? `${name}, the "${pick(["old", "tall", "late"], random)}" one` : name,
      town: at % 7 === 3 ? `${name}ville, north` : `${name}ville`,
      cents: number(0, 100_000, random),
    }));
    const cell = (text: string) => /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    const rows = people.map(({ name, town, cents }) => [cell(name), cell(town), cents].join(","));
    const table = ["name,town,cents", ...rows, ""].join("\n");
    const split = rows.map((row) => row.split(",")).map(([name, town, cents]) => ({
      ...{ name, town, cents: Number(cents) },
    }));
    return {
      files: { "package.json": PACKAGE, "people.csv": table },
      question: [
        "Write people.json from people.csv: a list of objects with the names of the first line, cents as numbers. Mind the quotes.",
      ],
      fault: ({ files }) => {
        if (files["people.csv"] !== table) return "people.csv has changed";
        try {
          const written = JSON.stringify(JSON.parse(files["people.json"] ?? "null"));
          return written === JSON.stringify(people) ? undefined : `people.json is ${written.slice(0, 200)}`;
        } catch (error) {
          return (error as Error).message;
        }
      },
      wrong: { files: { "people.json": JSON.stringify(split) } },
    };
  },
  turns: [function* () {
    yield* work({ read: "people.csv", from: 1, to: 8 });
    yield* work({ write: "convert.mjs", text: CONVERT });
    yield* work({ run: "node convert.mjs && rm convert.mjs && head -c 300 people.json" });
    return "people.json is written.";
  }],
};

const DEAD_CODE: Task = {
  name: "remove unused functions, except those that are used by name",
  make(random) {
    const names = words(9, random);
    const [byName, ...used] = shuffled(names, random).slice(0, 5) as [string, ...string[]];
    const functionOf = (name: string, at: number) => `export function ${name}(n) {\n  return n + ${at};\n}\n`;
    const util = (keptNames: readonly string[]) =>
      names.map((name, at) => keptNames.includes(name) ? functionOf(name, at) : "").join("");
    const others = {
      "package.json": PACKAGE,
      ...Object.fromEntries(
        used.map((name, at) => [
          `src/use${at}.js`,
          `import { ${name} } from "./util.js";\nexport const value${at} = ${name}(${at});\n`,
        ]),
      ),
      "src/by_name.js":
        `import * as util from "./util.js";\nexport const value = (n) => util["${byName}"](n);\n`,
    };
    return {
      files: { ...others, "src/util.js": util(names) },
      question: [
        "Remove the functions of src/util.js that nothing in src uses. One that is used by its name in a string is used.",
      ],
      fault: ({ files }) => differing(files, { ...others, "src/util.js": util([byName, ...used]) }),
      wrong: { files: { "src/util.js": util(used) } },
    };
  },
  turns: [function* () {
    const util = yield* work({ read: "src/util.js" });
    const functions = [...util.matchAll(/export function (\w+)\(n\) \{\n.*\n\}\n?/g)];
    const names = functions.map(([, name]) => name!);
    const matches = hits(yield* whole(yield* work({ search: names.join("|"), in: "src" })));
    const users = matches.filter(({ path }) => path !== "src/util.js").map(({ line }) => line).join("\n");
    const dead = functions.filter(([, name]) => !new RegExp(`\\b${name}\\b`).test(users));
    for (const [text] of dead) {
      yield* work({ edit: "src/util.js", old: `${text.trimEnd()}\n`, now: "" });
    }
    return `Removed ${dead.map(([, name]) => name).join(", ")}.`;
  }],
};

export const CHANGES: readonly Task[] = [FIX_A_BUG, ADD_A_FIELD, WRITE_FROM_SPEC, CSV_TO_JSON, DEAD_CODE];
