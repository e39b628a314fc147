import { differing, number, type Task, words } from "../task.ts";
import { fileIn, found, remembered, work, workShowing } from "../worker.ts";

const LONG_LOG: Task = {
  name: "find the error in the middle of a long log",
  make(random) {
    const units = words(40, random);
    const [wanted, wrong, right] = [
      units[number(18, 23, random)]!,
      number(10, 50, random),
      number(50, 90, random),
    ];
    const build = [
      'import { readFileSync } from "node:fs";',
      `const units = ${JSON.stringify(units)};`,
      "let failed = false;",
      "for (const [at, unit] of units.entries()) {",
      "  for (let step = 0; step < 25; step++) console.log(`[${at}.${step}] compile ${unit} step ${step} of 25`);",
      '  const size = Number(/size = (\\d+)/.exec(readFileSync(`units/${unit}.js`, "utf8"))[1]);',
      `  if (unit !== ${JSON.stringify(wanted)} || size === ${right}) continue;`,
      `  console.log(\`ERROR in units/\${unit}.js: size is \${size} and must be ${right}\`);`,
      "  failed = true;",
      "}",
      'console.log(failed ? "The build failed, see above." : "The build is good.");',
      "process.exitCode = failed ? 1 : 0;",
      "",
    ].join("\n");
    const files = (size: number) => ({
      "package.json": '{ "type": "module" }\n',
      "build.js": build,
      ...Object.fromEntries(
        units.map((unit) => [`units/${unit}.js`, `export const size = ${unit === wanted ? size : right};\n`]),
      ),
    });
    return {
      files: files(wrong),
      question: ["`node build.js` fails. Mend what it complains of, in units and not in build.js."],
      fault: ({ files: left }) => differing(left, files(right)),
      wrong: { files: { "build.js": build.replace("process.exitCode = failed ? 1 : 0;\n", "") } },
    };
  },
  turns: [function* () {
    const log = yield* workShowing(/ERROR/, { run: "node build.js" });
    let line = yield* found(log, /(ERROR in \S+: size is \d+ and must be \d+)/, "ERROR in");
    // A truncated result is reported as such, without a way to recall it.
    if (line === "lost" && /truncated/i.test(log)) {
      line = yield* found(yield* work({ run: "node build.js | grep ERROR" }), /(ERROR in .*)/);
    }
    const [, path = "lost", is, right] = /in (\S+): size is (\d+) and must be (\d+)/.exec(line) ?? [];
    yield* work({ read: path });
    yield* work({ edit: path, old: `size = ${is};`, now: `size = ${right};` });
    const ended = yield* work({ run: "node build.js | tail -n 1" });
    return /good/.test(ended) ? `${path} was wrong, and the build is good.` : "It fails still.";
  }],
};

const HUGE_FILE: Task = {
  name: "correct one row of twenty thousand",
  make(random) {
    const id = number(20_000, 30_000, random);
    const [old, now] = [number(1, 50, random), number(100, 200, random)];
    const rows = Array.from({ length: 20_000 }, (_, at) => {
      const own = 15_000 + at;
      // The same number appears in other rows, in another column.
      return `${own},part ${(at * 7919) % 20_000 + 15_000},${own === id ? old : (own * 31) % 97}`;
    });
    const table = (lines: readonly string[]) => ["id,name,count", ...lines, ""].join("\n");
    const corrected = table(
      rows.map((row) => row.startsWith(`${id},`) ? row.replace(/\d+$/, `${now}`) : row),
    );
    const other = rows.findIndex((row) => row.includes(`,part ${id},`));
    return {
      files: { "stock.csv": table(rows) },
      question: [
        `In stock.csv the count of the row with the id ${id} is wrong: it must be ${now}. Nothing else may change.`,
      ],
      fault: ({ files }) => files["stock.csv"] === corrected ? undefined : "stock.csv isn't as it should be",
      wrong: {
        files: {
          "stock.csv": table(rows.map((row, at) => at === other ? row.replace(/\d+$/, `${now}`) : row)),
        },
      },
    };
  },
  turns: [function* (question) {
    const [, id, now] = /id (\d+) is wrong: it must be (\d+)/.exec(question)!;
    const row = yield* found(
      yield* work({ search: `^${id},`, in: "stock.csv" }),
      new RegExp(`(\\b${id},part \\d+,\\d+)`),
    );
    yield* work({ edit: "stock.csv", old: `\n${row}\n`, now: `\n${row.replace(/\d+$/, now!)}\n` });
    return `The count of ${id} is ${now}.`;
  }],
};

const CONFIG: Task = {
  name: "change one setting of one section",
  make(random) {
    const sections = ["development", "staging", "production"];
    const [old, now] = [number(10, 40, random), number(41, 99, random)];
    const file = (timeouts: readonly number[]) =>
      sections.map((section, at) =>
        `[${section}]  # ${section} alone\nhost = "${section}.example"\ntimeout = ${
          timeouts[at]
        }  # seconds\n`
      ).join("\n");
    const right = file([old, now, old]);
    return {
      files: { "settings.toml": file([old, old, old]) },
      question: [`Set the timeout of staging in settings.toml to ${now}, and nothing else.`],
      fault: ({ files }) => differing(files, { "settings.toml": right }),
      wrong: { files: { "settings.toml": file([now, old, old]) } },
    };
  },
  turns: [function* (question) {
    const [, now] = /to (\d+),/.exec(question)!;
    const matches = yield* work({ read: "settings.toml" });
    const section = yield* found(matches, /(\[staging\][^[]*timeout = \d+)/);
    yield* work({ edit: "settings.toml", old: section, now: section.replace(/\d+$/, now!) });
    return `staging waits ${now} seconds.`;
  }],
};

const CONFLICTS: Task = {
  name: "resolve conflicts by a rule",
  make(random) {
    const [ours, theirs, same] = words(3, random) as [string, string, string];
    const [port, other] = [number(3000, 4000, random), number(8000, 9000, random)];
    const conflict = (name: string, a: unknown, b: unknown) =>
      `<<<<<<< ours\nexport const ${name} = ${JSON.stringify(a)};\n=======\nexport const ${name} = ${
        JSON.stringify(b)
      };\n>>>>>>> theirs\n`;
    const file = (choose: (name: string, a: unknown, b: unknown) => string) =>
      [
        choose("host", ours, theirs),
        `export const scheme = "${same}";\n`,
        choose("port", port, other),
        choose("path", `/${ours}`, `/${theirs}`),
      ].join("");
    const line = (name: string, value: unknown) => `export const ${name} = ${JSON.stringify(value)};\n`;
    return {
      files: { "src/address.js": file(conflict) },
      question: [
        "Resolve the conflicts in src/address.js: of the port take theirs, of all else ours.",
      ],
      fault: ({ files }) =>
        differing(files, { "src/address.js": file((name, a, b) => line(name, name === "port" ? b : a)) }),
      wrong: { files: { "src/address.js": file(line) } },
    };
  },
  turns: [function* () {
    const text = fileIn(yield* work({ read: "src/address.js" }));
    const resolved = text.replace(
      /<<<<<<< ours\n(.*\n)=======\n(.*\n)>>>>>>> theirs\n/g,
      (_, ours: string, theirs: string) => /const port\b/.test(ours) ? theirs : ours,
    );
    yield* work({ write: "src/address.js", text: resolved });
    return "They are resolved.";
  }],
};

const HOUSE_RULES: Task = {
  name: "follow the rules of AGENTS.md for new files",
  make(random) {
    const [owner, name] = words(2, random) as [string, string];
    const factor = number(3, 90, random);
    const year = number(2030, 2060, random);
    const head = `// (c) ${year} ${owner}`;
    const files = {
      "package.json": '{ "type": "module" }\n',
      "AGENTS.md":
        `# Rules of this project\n\n- Each new file of src begins with the line \`${head}\`.\n- Each function that src exports has a line \`- NAME: PATH\` at the end of docs/index.md.\n`,
      "docs/index.md": "# Functions\n\n- first: src/first.js\n",
      "src/first.js": `${head}\nexport function first(n) {\n  return n;\n}\n`,
    };
    const path = `src/${name}.js`;
    const code = `export function ${name}(n) {\n  return ${factor} * n;\n}\n`;
    return {
      files,
      question: [`Add ${path}, which exports a function ${name}(n) that gives ${factor} times n.`],
      fault: async ({ files: left, run }) => {
        if (!left[path]?.startsWith(`${head}\n`)) return `${path} doesn't begin with ${head}`;
        const index = `${files["docs/index.md"]}- ${name}: ${path}\n`;
        return differing({ ...left, [path]: "" }, { ...files, "docs/index.md": index, [path]: "" }) ??
          await run(
            `import { ${name} } from "./${path}"; if (${name}(2) !== ${2 * factor}) throw ${name}(2);`,
          );
      },
      wrong: { files: { [path]: code } },
    };
  },
  turns: [function* (question) {
    const [, path, name, factor] = /Add (\S+), .* function (\w+)\(n\) that gives (\d+)/.exec(question)!;
    const head = yield* remembered(/new file of src begins with the line `([^`]+)`/);
    const index = fileIn(yield* work({ read: "docs/index.md" }));
    yield* work(
      { write: path!, text: `${head}\nexport function ${name}(n) {\n  return ${factor} * n;\n}\n` },
      { write: "docs/index.md", text: `${index}- ${name}: ${path}\n` },
    );
    return `${path} is there, as the rules say.`;
  }],
};

export const LARGE: readonly Task[] = [LONG_LOG, HUGE_FILE, CONFIG, CONFLICTS, HOUSE_RULES];
