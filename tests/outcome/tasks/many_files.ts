import { sourceText } from "../../gateway/long_session.ts";
import { differing, type Files, number, pick, shuffled, type Task, words } from "../task.ts";
import { fileIn, found, hits, retaining, whole, type Work, work, workShowing } from "../worker.ts";

const RENAME: Task = {
  name: "rename a function in twelve files",
  make(random) {
    const [old, now, ...names] = words(14, random) as [string, string, ...string[]];
    const files = (name: string) => ({
      "package.json": '{ "type": "module" }\n',
      "docs/history.md": `# History\n\n- ${old}() came with the first version.\n`,
      "src/core.js":
        `export function ${name}(n) {\n  return n + 1;\n}\nexport function ${old}All(list) {\n  return list.length;\n}\n`,
      ...Object.fromEntries(names.map((user, at) => [
        `src/${user}.js`,
        `import { ${name}, ${old}All } from "./core.js";\nexport const one${at} = ${name}(${at});\nexport const all${at} = ${old}All([${at}]);\n`,
      ])),
    });
    const careless = Object.fromEntries(
      Object.entries(files(old)).map(([path, text]) => [path, text.replaceAll(old, now)]),
    );
    return {
      files: files(old),
      question: [
        `Rename the function ${old} to ${now} in src, wherever it is used. Nothing else has another name, and docs/history.md tells what was: leave that.`,
      ],
      fault: ({ files: left }) => differing(left, files(now)),
      wrong: { files: careless },
    };
  },
  turns: [function* (question) {
    const [, old, now] = /function (\w+) to (\w+)/.exec(question)!;
    const found = yield* work({ search: `\\b${old}\\b`, in: "src" });
    const lines = yield* retaining("Lines", function* () {
      return hits(yield* whole(found));
    });
    const edits = lines.map(({ path, line }) => ({
      edit: path,
      old: line,
      now: line.replace(new RegExp(`\\b${old}\\b`, "g"), now!),
    }));
    // Edits of one file are consecutive.
    for (const part of [edits.filter((_, at) => at % 2 === 0), edits.filter((_, at) => at % 2 === 1)]) {
      if (part.length > 0) yield* work(...part);
    }
    const left = hits(yield* work({ search: `\\b${old}\\b`, in: "src" }));
    return left.length === 0 ? `${edits.length} lines say ${now} now.` : `${left[0]!.path} is left.`;
  }],
};

const NEEDLE: Task = {
  name: "find the right one of sixty files",
  make(random) {
    const services = words(61, random);
    const wanted = services[number(5, 55, random)]!;
    const [limit, past] = [number(100, 500, random), number(500, 900, random)];
    const files: Record<string, string> = {};
    for (const [at, service] of services.slice(0, 60).entries()) {
      const own = service === wanted ? limit : number(1000, 9000, random);
      files[`config/unit${String(at).padStart(2, "0")}.js`] = [
        `// ${sourceText(service, 120).split("\n")[0]}`,
        `export const service = "${service}";`,
        `export const limits = { ${
          services.filter((_, other) => other % 20 === at % 20).map((name) => `${name}: 0`).join(", ")
        } };`,
        `export const retryLimit = ${own};`,
        "",
      ].join("\n");
    }
    files["docs/old/limits.md"] = `Until last year ${wanted} had a retryLimit of ${past}.\n`;
    const path = Object.keys(files).find((path) => files[path]!.includes(`service = "${wanted}"`))!;
    return {
      files,
      question: [
        `Which file of config belongs to the service "${wanted}", and what is its retryLimit? Answer with the path and the number, and change nothing.`,
      ],
      fault: ({ files: left, answers: [answer = ""] }) =>
        differing(left, files) ??
          (answer.includes(path) && new RegExp(`\\b${limit}\\b`).test(answer) && !answer.includes(`${past}`)
            ? undefined
            : `the answer is ${JSON.stringify(answer)}, and ${path} says ${limit}`),
      wrong: { answer: `docs/old/limits.md: ${past}` },
    };
  },
  turns: [function* (question) {
    const [, service] = /service "(\w+)"/.exec(question)!;
    const [hit] = hits(yield* work({ search: `service = "${service}"`, in: "config" }));
    if (!hit) return "There is none.";
    const text = yield* workShowing(/retryLimit/, { read: hit.path });
    return `${hit.path}: ${/retryLimit = (\d+)/.exec(text)?.[1] ?? "lost"}`;
  }],
};

const SUMMARIZE: Task = {
  name: "sum up forty files",
  make(random) {
    const states = ["open", "paid", "sent"];
    const orders = Array.from({ length: 40 }, (_, at) => ({
      order: 1000 + at,
      state: at === 0 ? "open" : pick(states, random),
      cents: number(100, 100_000, random),
      note: sourceText(`order ${at}`, 300),
    }));
    const files = Object.fromEntries(
      orders.map((order) => [`orders/${order.order}.json`, `${JSON.stringify(order, null, 2)}\n`]),
    );
    const sum = (of: typeof orders) => of.reduce((sum, { cents }) => sum + cents, 0);
    return {
      files,
      question: [
        "Each file orders/1000.json to orders/1039.json is an order. Write into open.txt how many cents those have together whose state is open: the number alone.",
      ],
      fault: ({ files: left }) =>
        differing({ ...left, "open.txt": "" }, { ...files, "open.txt": "" }) ??
          (left["open.txt"]?.trim() === `${sum(orders.filter(({ state }) => state === "open"))}`
            ? undefined
            : `open.txt is ${left["open.txt"]}`),
      wrong: { files: { "open.txt": `${sum(orders)}\n` } },
    };
  },
  turns: [function* () {
    let sum = 0;
    for (let first = 1000; first < 1040; first += 10) {
      const paths = Array.from({ length: 10 }, (_, at) => `orders/${first + at}.json`);
      const text = yield* workShowing(/"(order|state|cents)"/, ...paths.map((read): Work => ({ read })));
      sum += yield* retaining(`Open from ${first} on`, function* () {
        let open = 0;
        for (let order = first; order < first + 10; order++) {
          const match = new RegExp(`"order": ${order},[^"]*("state": "\\w+",[^"]*"cents": \\d+)`);
          const value = match.exec(text)?.[1] ?? (yield* found(text, match, `"order": ${order}`));
          open += Number(/"open",[^"]*"cents": (\d+)/.exec(value)?.[1] ?? 0);
        }
        return open;
      });
    }
    yield* work({ write: "open.txt", text: `${sum}\n` });
    return `${sum} cents are open.`;
  }],
};

const RELEASE: Task = {
  name: "make a release from files of changes",
  make(random) {
    const [project, ...changes] = words(5, random) as [string, ...string[]];
    const [old, now] = [`1.${number(2, 9, random)}.0`, `2.${number(1, 9, random)}.0`];
    const numbers = shuffled([3, 11, 20, 101], random);
    const titles = changes.map((name, at) => ({ number: numbers[at]!, title: `It can ${name} now.` }))
      .sort((a, b) => a.number - b.number);
    const past = `## ${old}\n\n- It is there.\n`;
    const files = (version: string, section: string): Files => ({
      "package.json": `{\n  "name": "${project}",\n  "version": "${version}"\n}\n`,
      "README.md": `# ${project}\n\nThis is version ${version}.\n`,
      "src/version.js": `export const VERSION = "${version}";\n`,
      "CHANGELOG.md": `# Changes\n\n${section}${past}`,
    });
    const section = `## ${now}\n\n${titles.map(({ title }) => `- ${title}\n`).join("")}\n`;
    const waiting = Object.fromEntries(
      titles.map(({ number, title }) => [`changes/${String(number).padStart(3, "0")}.md`, `${title}\n`]),
    );
    return {
      files: { ...files(old, ""), ...waiting },
      question: [
        `Make release ${now}: the version in package.json, README.md and src/version.js; in CHANGELOG.md a section of it above the last one, with the text of each file of changes as a point, in the order of their names; then delete those files.`,
      ],
      fault: ({ files: left }) => differing(left, files(now, section)),
      wrong: {
        files: {
          ...files(now, section),
          "src/version.js": `export const VERSION = "${old}";\n`,
          ...Object.fromEntries(Object.keys(waiting).map((path) => [path, null])),
        },
      },
    };
  },
  turns: [function* (question) {
    const [, now] = /release ([\d.]+):/.exec(question)!;
    const changelog = fileIn(yield* work({ read: "CHANGELOG.md" }));
    const changes = yield* work({ run: 'for file in changes/*.md; do echo "$file: $(cat $file)"; done' });
    const points = [...changes.matchAll(/changes\/\d+\.md: (.*)/g)].map(([, title]) => `- ${title}\n`).join(
      "",
    );
    const old = /^## ([\d.]+)$/m.exec(changelog)?.[1] ?? "lost";
    yield* work(
      { edit: "package.json", old: `"version": "${old}"`, now: `"version": "${now}"` },
      { edit: "README.md", old: `version ${old}.`, now: `version ${now}.` },
      { edit: "src/version.js", old: `"${old}"`, now: `"${now}"` },
      {
        edit: "CHANGELOG.md",
        old: `# Changes\n\n## ${old}`,
        now: `# Changes\n\n## ${now}\n\n${points}\n## ${old}`,
      },
    );
    yield* work({ run: "rm -rf changes" });
    return `${now} is made.`;
  }],
};

const NAMES_OF_ALL_KINDS: Task = {
  name: "edit and move files with names of all kinds",
  make(random) {
    const [old, now] = words(2, random) as [string, string];
    const texts = (word: string) => ({
      "Überblick/größe – ñandú.txt": `Größe: ${word}\nmehr: ${old}er\n`,
      "日本語/設定 1.txt": `設定 = ${word}\n`,
      "it's 🐟/ein 'Wort'.txt": `🐟 ${word} 🐟\n`,
      "plain.txt": `nothing here\n`,
    });
    const moved = ({ "Überblick/größe – ñandú.txt": text, ...rest }: ReturnType<typeof texts>): Files => ({
      ...rest,
      "Archiv/größe – ñandú.txt": text,
    });
    return {
      files: texts(old),
      question: [
        `Replace the word ${old} by ${now} in all files (${old}er is another word), then move the file in Überblick to Archiv under the same name.`,
      ],
      fault: ({ files }) => differing(files, moved(texts(now))),
      wrong: {
        files: {
          ...moved(texts(now)),
          "Überblick/größe – ñandú.txt": null,
          "日本語/設定 1.txt": texts(old)["日本語/設定 1.txt"],
        },
      },
    };
  },
  turns: [function* (question) {
    const [, old, now] = /word (\w+) by (\w+)/.exec(question)!;
    const found = hits(yield* work({ search: `\\b${old}\\b` }));
    yield* work(...found.map(({ path, line }): Work => ({
      edit: path,
      old: line,
      now: line.replace(new RegExp(`\\b${old}\\b`), now!),
    })));
    const path = found.find(({ path }) => path.startsWith("Überblick/"))?.path ?? "lost";
    const target = path.replace(/^Überblick/, "Archiv");
    yield* work({
      run:
        `mkdir -p Archiv && if [ -e '${path}' ]; then mv '${path}' '${target}'; fi && rmdir Überblick || true`,
    });
    return `${found.length} files say ${now}.`;
  }],
};

export const MANY_FILES: readonly Task[] = [RENAME, NEEDLE, SUMMARIZE, RELEASE, NAMES_OF_ALL_KINDS];
