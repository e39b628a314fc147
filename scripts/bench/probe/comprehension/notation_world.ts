import { randomOf } from "../texts.ts";
import { numbered, PlantedSession, PlantedValues, type World } from "./world.ts";

/** Lines of a file that stands in others too. */
const LINES = 60;

/**
 * Plants a short session whose results repeat one another and are full of notation: numbered files, the same block in
 * two files and in two versions of one, hits of a search, paths in one folder. What is asked can only be answered by who
 * understands what stands for them: where a reference leads, which line has no number, which file a hit is of.
 */
export function plantNotation(name: string): World {
  const values = new PlantedValues(randomOf(name));
  const constants = (tide: string, count: number) =>
    Array.from({ length: count }, (_, at) => {
      const number = `${tide}_${String(at + 1).padStart(2, "0")}`;
      return `export const ${number} = ${at + 3}; // ${values.make(tide.toLowerCase())}`;
    });
  const quay = constants("QUAY", LINES);
  const pier = [...constants("PIER", 7), ...quay.slice(10, 50), ...constants("SLIP", 5)];
  const gates = Array.from({ length: LINES }, (_, at) => `gate.${at + 1} = ${values.make("gate")}`);
  const moved = [
    "# The gates, from the north to the south.",
    "# Each has a berth.",
    ...gates.slice(0, 24),
    `gate.25 = ${values.make("lock")}`,
    ...gates.slice(25),
  ];
  const files = {
    "src/quay.ts": textOf(quay),
    "src/pier.ts": textOf(pier),
    "config/gates.ini": textOf(moved),
  };
  const hits = ["src/north/mole.ts", "src/north/wharf.ts", "src/south/mole.ts", "src/south/basin.ts"]
    .map((path) => ({
      path,
      lines: [31, 58, 77, 140].map((number) => ({ number, value: values.make("mole") })),
    }));
  const stale = ["fixtures/early", "fixtures/late", "goldens", "goldens/old"]
    .flatMap((folder) =>
      [1, 2, 3].map(() => `packages/harbour/tests/${folder}/${values.make("stale")}.json`)
    );

  const session = new PlantedSession(name);
  const show = (path: keyof typeof files, lines: readonly string[]) => ({
    call: ["Read", { path }] as const,
    result: numbered(lines),
  });
  session.turn("Show me src/quay.ts, src/pier.ts and config/gates.ini.", [
    show("src/quay.ts", quay),
    show("src/pier.ts", pier),
    show("config/gates.ini", gates),
  ], "I have seen all three files.");
  session.turn("Run the job refit, and look at what it made of config/gates.ini.", [
    { call: ["run_job", { job: "refit" }], result: "The job refit has rewritten config/gates.ini." },
    show("config/gates.ini", moved),
  ], "The job refit has changed config/gates.ini.");
  session.turn("Run the jobs moorings and stale.", [
    {
      call: ["run_job", { job: "moorings" }],
      result: hits.flatMap(({ path, lines }) =>
        lines.map(({ number, value }) => `${path}:${number}:  moor("${value}");`)
      ).join("\n"),
    },
    { call: ["run_job", { job: "stale" }], result: stale.join("\n") },
  ], "Both jobs passed.");

  const alone = "Answer with the value alone, or with UNKNOWN if you can't find out.";
  const valueIn = (line: string | undefined) => /[a-z]+-\d{4}/.exec(line ?? "")?.[0];
  const [hit, path] = [hits[2]!, stale[7]!];
  return {
    history: session.messages,
    files,
    values: values.all,
    cases: [
      {
        name: "a line between numbers",
        question: `Which value stands on line 37 of \`src/quay.ts\`? ${alone}`,
        answer: valueIn(quay[36]),
      },
      {
        name: "a line of a block as above",
        question: `Which value stands on line 33 of \`src/pier.ts\`? ${alone}`,
        answer: valueIn(pier[32]),
      },
      {
        name: "a line that has moved since",
        question: `Which value stands on line 46 of \`config/gates.ini\` now? ${alone}`,
        answer: valueIn(moved[45]),
      },
      {
        name: "a line as it was first",
        question: `Which value stood on line 25 of \`config/gates.ini\` when it was first shown? ${alone}`,
        answer: valueIn(gates[24]),
      },
      {
        name: "a hit under its file",
        question:
          `Which value stands on line ${
            hit.lines[1]!.number
          } of \`${hit.path}\` by the report of the job moorings? ` +
          alone,
        answer: hit.lines[1]!.value,
      },
      {
        name: "a path behind its folder",
        question:
          `What is the whole path of the file \`${
            path.split("/").at(-1)
          }\` in the report of the job stale? ` +
          "Answer with the path alone.",
        answer: path,
        among: stale,
      },
      {
        name: "an edit in a block as above",
        question:
          "In `src/pier.ts` set the constant on line 21 to 97 and change nothing else. Then say that it is done.",
        edit: {
          path: "src/pier.ts",
          text: textOf(pier.map((line, at) => at === 20 ? line.replace(/= \d+;/, "= 97;") : line)),
        },
      },
    ],
  };
}

function textOf(lines: readonly string[]): string {
  return `${lines.join("\n")}\n`;
}
