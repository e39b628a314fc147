import { sourceText } from "../../gateway/long_session.ts";
import { differing, doOtherWork, number, otherWork, type Task, words } from "../task.ts";
import { found, remembered, retaining, work } from "../worker.ts";

const LONG_AGO: Task = {
  name: "answer from an evicted read of long ago",
  make(random) {
    const [code, past] = words(2, random) as [string, string];
    const before = `# Handover\n\n${sourceText(`before ${code}`, 2_000)}`;
    const behind = sourceText(`behind ${code}`, 2_000);
    const files = { "notes/old.md": `Last year the gate code was ${past}.\n` };
    const [first, second, third] = [otherWork([1]), otherWork([2]), otherWork([3])];
    const rest = { ...files, ...first.files, ...second.files, ...third.files };
    return {
      files: { ...rest, "notes/handover.md": `${before}\n\nThe gate code is ${code}.\n\n${behind}\n` },
      question: [
        "Read notes/handover.md and tell me in a few words what it is.",
        ...[first, second, third].map(({ questions }) => questions),
        "I have deleted notes/handover.md. Write the gate code that it named into code.txt, nothing else.",
      ],
      deletes: { 4: ["notes/handover.md"] },
      fault: ({ files }) =>
        differing({ ...files, "code.txt": files["code.txt"]?.trim() ?? "" }, { ...rest, "code.txt": code }),
      wrong: { files: { "code.txt": `${past}\n` } },
    };
  },
  turns: [
    function* () {
      yield* work({ read: "notes/handover.md" });
      return "It is a handover.";
    },
    ...[doOtherWork, doOtherWork, doOtherWork],
    function* () {
      const code = yield* remembered(/gate code is (\w+)/, "gate code is");
      yield* work({ write: "code.txt", text: `${code}\n` });
      return "code.txt says it.";
    },
  ],
};

const UNDO_AN_EDIT: Task = {
  name: "put one of three edits back",
  make(random) {
    const names = ["net", "disk", "mail"] as const;
    const now = number(50, 90, random);
    const before = names.map(() => number(2, 40, random));
    const fileOf = (name: string, retries: number) =>
      `${sourceText(name, 1_000)}\nexport const RETRIES = ${retries}; // ${name}\n`;
    const files = (of: readonly number[]) =>
      Object.fromEntries(names.map((name, at) => [`src/${name}.js`, fileOf(name, of[at]!)]));
    const [first, second] = [otherWork([4]), otherWork([5])];
    const rest = { ...first.files, ...second.files };
    return {
      files: { ...rest, ...files(before) },
      question: [
        `Set RETRIES to ${now} in src/net.js, src/disk.js and src/mail.js.`,
        ...[first.questions, second.questions],
        "For the disk that was wrong: put src/disk.js back as it was before. The others stay.",
      ],
      fault: ({ files: left }) => differing(left, { ...rest, ...files([now, before[1]!, now]) }),
      wrong: { files: files(before) },
    };
  },
  turns: [
    function* (question) {
      const [, now] = /RETRIES to (\d+)/.exec(question)!;
      const names = ["net", "disk", "mail"];
      const text = yield* work(...names.map((name) => ({ read: `src/${name}.js` })));
      const lines = yield* retaining("Lines", function* () {
        const lines: string[] = [];
        for (const name of names) {
          const match = new RegExp(`(export const RETRIES = \\d+;) // ${name}`);
          lines.push(match.exec(text)?.[1] ?? (yield* found(text, match, `// ${name}`)));
        }
        return lines;
      });
      const line = `export const RETRIES = ${now};`;
      yield* work(...names.map((name, at) => ({ edit: `src/${name}.js`, old: lines[at]!, now: line })));
      return "Done in all three.";
    },
    ...[doOtherWork, doOtherWork],
    function* () {
      const now = yield* remembered(/Set RETRIES to (\d+)/, "Set RETRIES to");
      const before = yield* remembered(new RegExp(`RETRIES = (?!${now};)(\\d+); // disk`), "// disk");
      yield* work({ edit: "src/disk.js", old: `RETRIES = ${now};`, now: `RETRIES = ${before};` });
      return "src/disk.js is as it was.";
    },
  ],
};

const DELETED_FILE: Task = {
  name: "write a file again that was deleted",
  make(random) {
    const names = words(25, random);
    const legacy = [
      "// The legacy names begin here.",
      ...names.map((name) => `export const ${name} = "${name}_${number(100, 1000, random)}";`),
      "// The legacy names end here.",
      "",
    ].join("\n");
    const files = { "lib/modern.js": `${sourceText("modern", 2_000)}\n` };
    const [first, second] = [otherWork([6]), otherWork([7])];
    const rest = { ...files, ...first.files, ...second.files };
    return {
      files: { ...rest, "lib/legacy.js": legacy },
      question: [
        "Read lib/legacy.js. How many names does it export?",
        ...[first.questions, second.questions],
        "I have deleted lib/legacy.js by mistake. You have read it: write it again exactly as it was.",
      ],
      deletes: { 3: ["lib/legacy.js"] },
      fault: ({ files }) => differing(files, { ...rest, "lib/legacy.js": legacy }),
      wrong: {
        files: { "lib/legacy.js": legacy.replace(/_\d+/g, "") },
      },
    };
  },
  turns: [
    function* () {
      const legacy = yield* work({ read: "lib/legacy.js" });
      return `It exports ${legacy.match(/^export/gm)?.length ?? 0} names.`;
    },
    ...[doOtherWork, doOtherWork],
    function* () {
      const text = yield* remembered(
        /(\/\/ The legacy names begin here\.\n.*?\/\/ The legacy names end here\.)/s,
      );
      yield* work({ write: "lib/legacy.js", text: `${text}\n` });
      return "lib/legacy.js is there again.";
    },
  ],
};

const OVERRIDDEN: Task = {
  name: "follow the current rules, not the revoked ones",
  make(random) {
    const [first, last] = words(2, random) as [string, string];
    const [past, now] = [number(3000, 4000, random), number(8000, 9000, random)];
    const config = (name: string, port: number) => `${JSON.stringify({ name, port }, null, 2)}\n`;
    const [between, behind] = [otherWork([8]), otherWork([9])];
    const rest = { ...between.files, ...behind.files };
    return {
      files: rest,
      question: [
        `For each service that I name you write config/NAME.json: its name and port, two spaces deep. The port is ${past} for all. Begin with ${first}.`,
        between.questions,
        `I was wrong with the port ${past}. From now on the port is ${now} for new services, and the name in the file stands in upper case. What is written stays as it is.`,
        behind.questions,
        `Now the service ${last}.`,
      ],
      fault: ({ files }) =>
        differing(files, {
          ...rest,
          [`config/${first}.json`]: config(first, past),
          [`config/${last}.json`]: config(last.toUpperCase(), now),
        }),
      wrong: {
        files: {
          [`config/${first}.json`]: config(first, past),
          [`config/${last}.json`]: config(last, past),
        },
      },
    };
  },
  turns: [
    function* (question) {
      const [, port, name] = /port is (\d+) for all\. Begin with (\w+)/.exec(question)!;
      yield* work({ write: `config/${name}.json`, text: configOf(name!, Number(port)) });
      return "It is written.";
    },
    doOtherWork,
    function* () {
      const port = yield* remembered(/the port is (\d+) for new services/);
      return `${port} for new ones.`;
    },
    doOtherWork,
    function* (question) {
      const [, name] = /service (\w+)/.exec(question)!;
      const port = yield* remembered(/From now on the port is (\d+)/, "From now on the port");
      yield* work({ write: `config/${name}.json`, text: configOf(name!.toUpperCase(), Number(port)) });
      return "It is written.";
    },
  ],
};

function configOf(name: string, port: number): string {
  return `${JSON.stringify({ name, port }, null, 2)}\n`;
}

const FILES_NAMED_BEFORE: Task = {
  name: "do the same in a file, and put back the one named second",
  make(random) {
    const [first, second, third, title, ...titles] = words(8, random) as [
      string,
      string,
      string,
      string,
      ...string[],
    ];
    const names = [first, second, third];
    const page = (name: string, title: string) =>
      `${sourceText(`page ${name}`, 800)}\nexport const title_of_${name} = "${title}";\n`;
    const files = (of: readonly string[]) =>
      Object.fromEntries(names.map((name, at) => [`pages/${name}.js`, page(name, of[at]!)]));
    const [between, behind] = [otherWork([10]), otherWork([11])];
    const rest = { ...between.files, ...behind.files };
    return {
      files: { ...rest, ...files(titles) },
      question: [
        `Change the title in pages/${first}.js to "${title}".`,
        `The same in pages/${second}.js, please.`,
        between.questions,
        `And in pages/${third}.js too.`,
        behind.questions,
        "In the file that I named second the old title was better: put it back there. The first and the third stay.",
      ],
      fault: ({ files: left }) => differing(left, { ...rest, ...files([title, titles[1]!, title]) }),
      wrong: { files: files([titles[0]!, title, title]) },
    };
  },
  turns: [
    changeTitle,
    changeTitle,
    doOtherWork,
    changeTitle,
    doOtherWork,
    function* () {
      const name = yield* remembered(/The same in pages\/(\w+)\.js/, "The same in pages/");
      const title = yield* remembered(/Change the title in pages\/\w+\.js to \\?"(\w+)/, "Change the title");
      const old = yield* remembered(
        new RegExp(`title_of_${name} = "(?!${title}")(\\w+)"`),
        `title_of_${name} =`,
      );
      yield* work({ edit: `pages/${name}.js`, old: `= "${title}"`, now: `= "${old}"` });
      return `pages/${name}.js has its old title.`;
    },
  ],
};

function* changeTitle(question: string) {
  const [, name] = /pages\/(\w+)\.js/.exec(question)!;
  const title = yield* remembered(/Change the title in pages\/\w+\.js to \\?"(\w+)/, "Change the title");
  const found = yield* work({ read: `pages/${name}.js` });
  const old = /title_of_\w+ = "\w+"/.exec(found)?.[0] ?? "lost";
  yield* work({ edit: `pages/${name}.js`, old, now: `title_of_${name} = "${title}"` });
  return "Changed.";
}

export const MEMORY: readonly Task[] = [
  LONG_AGO,
  UNDO_AN_EDIT,
  DELETED_FILE,
  OVERRIDDEN,
  FILES_NAMED_BEFORE,
];
