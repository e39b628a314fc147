import { join } from "@std/path";
import type { CountTokens, Message, Tool } from "@tare/messages";
import type { Archive } from "@tare/prune";
import { workspaceTools } from "@tare/loop/tools";
import { pick } from "../../words.ts";
import { prose, randomOf } from "../texts.ts";

/** What is asked at the end of the session, and what is right. */
export interface Case {
  /** What has to be remembered. */
  readonly name: string;
  readonly question: string;
  /** The right value; `undefined` if nothing in the session says it. Absent: the question asks for an edit. */
  readonly answer?: string | undefined;
  /** What the answer is one of. Default: all values of the session. */
  readonly among?: readonly string[];
  /** The one file that must have changed, and its right text. */
  readonly edit?: { readonly path: string; readonly text: string };
}

/** A session in which an agent came to know things, and what is asked afterwards. */
export interface World {
  readonly history: readonly Message[];
  readonly cases: readonly Case[];
  /** The workspace at the end of the session: texts by their paths. */
  readonly files: Readonly<Record<string, string>>;
  /** Every value that stands in the session: an answer that lists several is a guess. */
  readonly values: readonly string[];
}

/** The tool that can't be run again: each run of a job draws other values. */
const JOB: Tool = {
  definition: {
    type: "function",
    function: {
      name: "run_job",
      description:
        "Runs a job of the project and returns its report. Each run has effects and reports other values.",
      parameters: {
        type: "object",
        properties: { job: { type: "string", description: "Name of the job." } },
        required: ["job"],
        additionalProperties: false,
      },
    },
  },
  stance: "once",
  run: ({ job }) => `The job ${job} has nothing to do now.`,
};

/** The tool whose results are numbered, by the name and in the form that Claude Code has for it. */
const showTool = (workspace: string): Tool => ({
  definition: {
    type: "function",
    function: {
      name: "Read",
      description: "Shows a whole file with the numbers of its lines.",
      parameters: {
        type: "object",
        properties: { path: { type: "string", description: "Path in the project." } },
        required: ["path"],
        additionalProperties: false,
      },
    },
  },
  stance: "rederivable",
  reads: "path",
  run: async ({ path }) => {
    const content = await Deno.readTextFile(join(workspace, String(path)));
    return numbered(content.replace(/\n$/, "").split("\n"));
  },
});

const FILE_TOOLS = ["read_file", "search_files", "edit_file"];

/** The tools of the session, on the files in a folder. */
export function worldTools(workspace: string, archive: Archive): readonly Tool[] {
  const named = workspaceTools({ workspace, archive }).filter(({ definition }) =>
    [...FILE_TOOLS, "recall"].includes(definition.function.name)
  );
  return [JOB, showTool(workspace), ...named];
}

/** Writes the files into a folder that is empty or not there. */
export async function writeFiles(folder: string, files: World["files"]): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(folder, path), text);
  }
}

/** Tokens of a long report or file. */
const LONG_TOKENS = 4_000;

/** Turns at the end that nothing is asked of. */
const LATER_TURNS = 7;

const UNKNOWN = "Answer with the value alone, or with UNKNOWN if you can't find out.";

/**
 * Plants a session: facts in results of tools and in what was said, a rule, code to edit; the facts early, and then
 * turns enough that pruning takes them. `name` makes it a session that no provider has seen.
 */
export function plantWorld(name: string, countTokens: CountTokens): World {
  const random = randomOf(name);
  const values = new PlantedValues(random);
  const value = (word: string) => values.make(word);
  const long = (tokens: number, line: string) => {
    const lines = prose(tokens, { random, countTokens }).split("\n");
    lines.splice(Math.floor(lines.length * (0.3 + 0.4 * random())), 0, line);
    return lines.join("\n");
  };
  const constants = ["EBB", "FLOOD", "NEAP", "SLACK", "SPRING"].map((tide) => `${tide}_HOURS`);
  const limits = ["MAX_BOATS", "MAX_CREWS", "MAX_DOCKS", "MAX_FERRIES"];
  const code = (names: readonly string[]) =>
    names.map((name, at) => `export const ${name} = ${at + 2};\n`).join("") +
    prose(600, { random, countTokens }).split("\n").map((line) => `// ${line}\n`).join("");

  const mark = `// ${value("wren")}`;
  const [ticket, berths, crew, newCrew, release, budget, seed, fee] = [
    "kite",
    "heron",
    "plover",
    "gull",
    "tern",
    "stork",
    "rail",
    "skua",
  ]
    .map(value) as [string, string, string, string, string, string, string, string];
  const constant = pick(constants, random);
  const harbour = long(LONG_TOKENS, `harbour.berths = ${berths}`);
  const ferry = long(LONG_TOKENS, `ferry.crew = ${crew}`);
  const newFerry = ferry.replace(crew, newCrew);
  const files = {
    "config/harbour.ini": `${harbour}\n`,
    "config/ferry.ini": `${newFerry}\n`,
    "src/limits.ts": code(limits),
    "src/tides.ts": code(constants),
    "docs/fees.md": `${long(LONG_TOKENS, `The fee of the ferry is ${fee}.`)}\n`,
  };

  const session = new PlantedSession(name);
  session.turn(
    `Two things hold until the end of this session. Every line that you change in a file under src/ ends with the comment ` +
      `\`${mark}\`. And the note for the release is \`release.note = ${release}\`. Now run the job nightly, please.`,
    [{ call: ["run_job", { job: "nightly" }], result: long(LONG_TOKENS, `nightly.ticket = ${ticket}`) }],
    `The job nightly passed. I have decided on \`retry.budget = ${budget}\` for the rest of the work.`,
  );
  session.turn("Read config/harbour.ini and config/ferry.ini.", [
    { call: ["read_file", { path: "config/harbour.ini" }], result: asRead(`${harbour}\n`) },
    { call: ["read_file", { path: "config/ferry.ini" }], result: asRead(`${ferry}\n`) },
  ], "I have read both files.");
  session.turn("Run the job survey.", [{
    says: `I start it with survey.seed = ${seed}.`,
    call: ["run_job", { job: "survey" }],
    result: long(LONG_TOKENS, `survey.constant = ${constant}`),
  }], "The job survey passed; its report names one constant.");
  session.turn("Read src/limits.ts and src/tides.ts; you'll edit them later.", [
    { call: ["read_file", { path: "src/limits.ts" }], result: asRead(files["src/limits.ts"]) },
    { call: ["read_file", { path: "src/tides.ts" }], result: asRead(files["src/tides.ts"]) },
  ], "I have read both files.");
  session.turn("Read docs/fees.md, which you'll edit at the end. Change nothing yet.", [
    { call: ["read_file", { path: "docs/fees.md" }], result: asRead(files["docs/fees.md"]) },
  ], "I have read docs/fees.md, and changed nothing.");
  session.turn("Run the job refit, and look at what it made of config/ferry.ini.", [
    { call: ["run_job", { job: "refit" }], result: "The job refit has rewritten config/ferry.ini." },
    { call: ["read_file", { path: "config/ferry.ini" }], result: asRead(files["config/ferry.ini"]) },
  ], "The job refit changed one line of it.");
  for (let turn = 1; turn <= LATER_TURNS; turn++) {
    const job = `round${turn}`;
    session.turn(`Run the job ${job}.`, [
      { call: ["run_job", { job }], result: long(LONG_TOKENS, `${job}.ticket = ${value("kite")}`) },
    ], `The job ${job} passed.`);
  }

  const ask = (name: string, key: string, answer: string | undefined, where = ""): Case => ({
    name,
    question: `What value has \`${key}\`${where}? ${UNKNOWN}`,
    answer,
  });
  const edit = (path: keyof typeof files, name: string, number: number) => ({
    path,
    text: files[path].replace(
      new RegExp(`^export const ${name} = \\d+;$`, "m"),
      `export const ${name} = ${number}; ${mark}`,
    ),
  });
  return {
    history: session.messages,
    files,
    values: values.all,
    cases: [
      ask("a report's line", "nightly.ticket", ticket, " in the report of the job nightly"),
      ask("a file's line", "harbour.berths", berths, " in the file `config/harbour.ini`"),
      ask("a file's line, since changed", "ferry.crew", crew, " when config/ferry.ini was first read"),
      ask("what the user said", "release.note", release),
      ask("what the agent answered", "retry.budget", budget),
      ask("what the agent said in a step", "survey.seed", seed),
      ask("what nobody said", "nightly.owner", undefined, " in the report of the job nightly"),
      {
        name: "a file that the user named, for an edit",
        question:
          "In `docs/fees.md` the fee of the ferry is free now: put that word for its value and change nothing " +
          "else. Then say that it is done.",
        edit: { path: "docs/fees.md", text: files["docs/fees.md"].replace(`is ${fee}.`, "is free.") },
      },
      {
        name: "a rule, for an edit",
        question:
          "In `src/limits.ts` set `MAX_DOCKS` to 71 and change nothing else. Then say that it is done.",
        edit: edit("src/limits.ts", "MAX_DOCKS", 71),
      },
      {
        name: "a report's line and a rule, for an edit",
        question:
          "In `src/tides.ts` set to 97 the constant that the report of the job survey names as `survey.constant`, and " +
          "change nothing else. Then say that it is done.",
        edit: edit("src/tides.ts", constant, 97),
      },
    ],
  };
}

/** Values that no guess finds, each once. */
export class PlantedValues {
  readonly all: string[] = [];
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Another one, which begins with a word. */
  make(word: string): string {
    for (;;) {
      const made = `${word}-${Math.floor(1_000 + 9_000 * this.#random())}`;
      if (this.all.includes(made)) continue;
      this.all.push(made);
      return made;
    }
  }
}

/** What a step of the planted session says, calls and gets back. */
interface Step {
  readonly says?: string;
  readonly call: readonly [name: string, args: Readonly<Record<string, string>>];
  readonly result: string;
}

/** The messages of a planted session. */
export class PlantedSession {
  readonly messages: Message[];
  #calls = 0;

  constructor(name: string) {
    this.messages = [{
      role: "system",
      content:
        `Session ${name}. You are an agent that works on a project with the tools that you have. A line such as ` +
        "`[elided: …]` stands for a text that has left your prompt: recall it by its reference if you need it.",
    }];
  }

  turn(user: string, steps: readonly Step[], answer: string): void {
    this.messages.push({ role: "user", content: user });
    for (const { says = null, call: [name, args], result } of steps) {
      const id = `call_${++this.#calls}`;
      const call = { id, type: "function" as const, function: { name, arguments: JSON.stringify(args) } };
      this.messages.push({ role: "assistant", content: says, tool_calls: [call] });
      this.messages.push({ role: "tool", tool_call_id: id, content: result });
    }
    this.messages.push({ role: "assistant", content: answer });
  }
}

/** A file as `read_file` shows it. */
function asRead(text: string): string {
  const lines = text.replace(/\n$/, "").split("\n");
  return [`lines 1-${lines.length} of ${lines.length}`, ...lines].join("\n");
}

/** Lines as `Read` shows them. */
export function numbered(lines: readonly string[]): string {
  return lines.map((line, at) => `${String(at + 1).padStart(6)}→${line}`).join("\n");
}
