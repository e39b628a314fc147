import { parsePlaceholder } from "@tare/prune/internal";
import type { Asked, Reply, Said, WantedCall } from "../agents/model.ts";

/** Something that a worker does with the folder, whatever its agent's tools are called. */
export type Work =
  | { readonly read: string; readonly from?: number; readonly to?: number }
  | { readonly search: string; readonly in?: string }
  | { readonly write: string; readonly text: string }
  | { readonly edit: string; readonly old: string; readonly now: string }
  | { readonly run: string };

/** How an agent's tools do what is done at the same time; `shows` says which lines of the results are of use. */
export type Hands = (works: readonly Work[], shows?: RegExp) => readonly WantedCall[];

/** What a worker wants next. */
type Want =
  /** To do something, all at the same time. */
  | { readonly works: readonly Work[]; readonly shows?: RegExp }
  /** To have something back that left. */
  | { readonly recall: Readonly<Record<string, unknown>> }
  /** To write down what came of that, with the next step. */
  | { readonly note: string; readonly text: string }
  /** To read what it wrote down in this turn, if it did. */
  | { readonly noted: string }
  /** To see all that its prompt shows. */
  | "everything";

/** What a worker does in one turn, up to its answer. It is told what each want of its gave, as its prompt shows that. */
export type Turn = (asked: string) => Generator<Want, string, string>;

/**
 * A model that does what a worker does, and knows nothing but its prompt: with each request the worker begins anew at the
 * start of its turn, and is told what its calls gave as far as the prompt still shows that. What has left, it has to
 * recall by what stands in its place. Calls of which nobody knows what came of them are made once more: whatever a worker
 * does must be the same if it is done twice, or refused.
 *
 * @param turns What the user says, and what the worker makes of it.
 */
export function workerModel(
  turns: readonly { readonly asked: string; readonly turn: Turn }[],
  hands: Hands,
): (asked: Asked) => Reply {
  const tools = hands([{ run: "" }]).map(({ name }) => name);
  return ({ said, tools: offered }) => {
    // A title, or the like.
    if (!tools.every((name) => offered.includes(name))) return { text: "A title", calls: [] };
    const at = turns.findLastIndex(({ asked }) => said.some((item) => isRequest(item, asked)));
    const current = turns[at];
    if (!current) return { text: "What is to be done?", calls: [] };
    const start = said.findLastIndex((item) => isRequest(item, current.asked));
    return nextReply(current.turn(current.asked), {
      before: said.slice(0, start + 1),
      since: said.slice(start + 1),
      hands,
      mayRecall: offered.includes("recall"),
    });
  };
}

function isRequest(item: Said, asked: string): boolean {
  // Some agents quote what they were given.
  const plain = (text: string) => text.replaceAll(/[\\"]/g, "");
  return item.type === "text" && item.role === "user" && plain(item.text).includes(plain(asked));
}

function nextReply(worker: ReturnType<Turn>, { before, since, hands, mayRecall }: {
  readonly before: readonly Said[];
  readonly since: readonly Said[];
  readonly hands: Hands;
  readonly mayRecall: boolean;
}): Reply {
  const calls = since.filter((item) => item.type === "call");
  const results = new Map(since.flatMap((item) => item.type === "result" ? [[item.id, item.text]] : []));
  const worked = calls.filter(({ name }) => name !== "recall");
  const recalled = calls.filter(({ name }) => name === "recall");
  const notes = since.flatMap((item) => item.type === "text" && item.role === "assistant" ? [item.text] : [])
    .join("\n");
  const unwritten: string[] = [];
  const reply = (calls: readonly WantedCall[], text = unwritten.join("\n")) => ({
    ...(text && { text }),
    calls,
  });
  let done = 0;
  let told = "";
  for (;;) {
    const { value: want, done: isAnswer } = worker.next(told);
    if (isAnswer) return reply([], want);
    if (want === "everything") {
      told = [...before, ...since].map((item) => item.type === "call" ? item.args : item.text).join("\n");
    } else if ("noted" in want) {
      const start = notes.lastIndexOf(`${want.noted}: `);
      told = start < 0 ? "" : notes.slice(start + want.noted.length + 2).split("\n", 1)[0]!;
    } else if ("note" in want) {
      unwritten.push(`${want.note}: ${want.text}`);
    } else if ("recall" in want) {
      const args = JSON.stringify(want.recall);
      const same = recalled.filter((call) => call.args === args);
      const shown = same.map(({ id }) => results.get(id) ?? "").findLast((text) => !parsePlaceholder(text));
      if (shown === undefined && mayRecall && same.length < MAX_SAME) {
        return reply([{ name: "recall", args: want.recall }]);
      }
      told = shown ?? "";
    } else {
      const wanted = hands(want.works, want.shows);
      do {
        const made = worked.slice(done, done + wanted.length);
        if (made.length < wanted.length) return reply(wanted);
        done += made.length;
        told = made.map(({ id }) => results.get(id) ?? "").join("\n");
      } while (UNKNOWN.test(told));
    }
  }
}

/** So often the same is recalled at most. */
const MAX_SAME = 3;

/** What an agent is told of a call that was cut off. */
const UNKNOWN = /^Cannot report the result: interrupted/m;

/** Does something, or several things at the same time, and gives what is shown of the results. */
export function* work(...works: readonly Work[]): Generator<Want, string, string> {
  return yield { works };
}

/** The same where the worker needs only some lines of the results: who can leave the others out may. */
export function* workShowing(shows: RegExp, ...works: readonly Work[]): Generator<Want, string, string> {
  return yield { works, shows };
}

/**
 * The first group of what matches in a text that a worker was shown. Where what it looks for has left, the worker asks for
 * it by each line that stands for something: lines that hold `find`, or all of it. It writes down what it found.
 */
export function* found(text: string, match: RegExp, find?: string): Generator<Want, string, string> {
  const valueIn = (text: string) => {
    const value = match.exec(text)?.[1];
    return value?.includes("[elided:") ? undefined : value;
  };
  return yield* kept(`Of ${match.source}`, function* () {
    const shown = valueIn(text);
    if (shown !== undefined) return shown;
    // What comes back may hold what stands for more.
    const refs = new Set(refsIn(text).toReversed());
    for (const ref of refs) {
      const back = yield* kept(`In ${ref} of ${match.source}`, function* () {
        const text = yield* recalled(ref, find);
        return { value: valueIn(text) ?? null, refs: refsIn(text) };
      });
      if (back.value !== null) return back.value;
      for (const more of back.refs) refs.add(more);
    }
    return "lost";
  });
}

function refsIn(text: string): readonly string[] {
  return text.split("\n").flatMap((line) => parsePlaceholder(line)?.ref ?? []);
}

/**
 * What a worker makes of what it was shown: it writes that down with its next step, and goes by it for the rest of the turn,
 * as what it was shown may leave. It may recall for that, and do nothing else.
 */
export function* kept<T>(name: string, make: () => Generator<Want, T, string>): Generator<Want, T, string> {
  const noted = yield { noted: name };
  if (noted !== "") return JSON.parse(noted);
  const value = yield* make();
  yield { note: name, text: JSON.stringify(value) };
  return value;
}

/** All of the only result of a step, if its middle has left. */
export function* whole(text: string): Generator<Want, string, string> {
  const placeholder = text.split("\n").map(parsePlaceholder).find((one) => one !== undefined);
  return placeholder ? yield* recalled(placeholder.ref, undefined) : text;
}

/** What a reference gives back: lines that hold a text, or all of it, piece by piece. */
function* recalled(ref: string, find: string | undefined): Generator<Want, string, string> {
  if (find !== undefined) return yield { recall: { ref, find } };
  let text = "";
  for (let offset = 0;;) {
    const piece = yield { recall: { ref, ...(offset > 0 && { offset }) } };
    const cut = CUT.exec(piece);
    if (!cut) return text + piece;
    text += piece.slice(0, cut.index + 1);
    offset = Number(cut[1]);
  }
}

/** How the recall tool says that there is more. */
const CUT = /\n\[characters .*go on with offset (\d+)\]$/;

/** The same in all that the worker's prompt shows: what was said, called and answered, in this turn and before. */
export function* remembered(match: RegExp, find?: string): Generator<Want, string, string> {
  return yield* found(yield "everything", match, find);
}

/** A file as it is, by a step that read nothing else. */
export function fileIn(shown: string): string {
  return shown.replace(/^lines \d+-\d+ of \d+.*\n/, "").replace(/\n?$/, "\n");
}

/** Lines that a search has found: behind their paths, or under them. */
export function hits(shown: string): readonly { readonly path: string; readonly line: string }[] {
  let heading = "";
  return shown.split("\n").flatMap((text) => {
    const [, path = heading, line] = /^(?:(?:\.\/)?([^:]+):)?\d+: ?(.*)$/.exec(text) ?? [];
    if (line !== undefined) return [{ path, line: line.trim() }];
    heading = text;
    return [];
  });
}

/** Tare's own tools. */
export const TARE: Hands = (works) => works.map(tareCall);

/** Tare's own tools, called by programs: their results enter no prompt, but for the lines that are of use. */
export const PROGRAMS: Hands = (works, shows) => {
  const calls = works.map(tareCall).map(({ name, args }) => `  tools.${name}(${JSON.stringify(args)}),\n`);
  const text = shows ? `value.split("\\n").filter((line) => ${shows}.test(line)).join("\\n")` : "value";
  const code = `const results = await Promise.allSettled([\n${calls.join("")}]);\n` +
    `for (const { value, reason } of results) print(reason ? reason.message : ${text});\n`;
  return [{ name: "run_program", args: { code } }];
};

function tareCall(work: Work): WantedCall {
  if ("read" in work) {
    const { read: path, from, to } = work;
    return {
      name: "read_file",
      args: {
        path,
        ...(from !== undefined && { start_line: from }),
        ...(to !== undefined && { end_line: to }),
      },
    };
  }
  if ("search" in work) {
    return {
      name: "search_files",
      args: { pattern: work.search, ...(work.in !== undefined && { path: work.in }), max_results: 500 },
    };
  }
  if ("write" in work) return { name: "write_file", args: { path: work.write, content: work.text } };
  if ("edit" in work) {
    return { name: "edit_file", args: { path: work.edit, old_text: work.old, new_text: work.now } };
  }
  return { name: "shell", args: { command: work.run } };
}

/** An agent that has a shell for everything. */
export function shellHands(shell: (command: string) => WantedCall): Hands {
  return (works) => works.map((work) => shell(commandOf(work)));
}

function commandOf(work: Work): string {
  if ("read" in work) {
    const { from = 1, to = "$" } = work;
    return `sed -n ${from},${quote(`${to}p`)} ${quote(work.read)}`;
  }
  if ("search" in work) return `grep -rnE -e ${quote(work.search)} ${quote(work.in ?? ".")}`;
  if ("write" in work) {
    const folder = work.write.includes("/")
      ? `mkdir -p ${quote(work.write.replace(/\/[^/]*$/, ""))} && `
      : "";
    return `${folder}printf %s ${quote(work.text)} > ${quote(work.write)}`;
  }
  if ("edit" in work) return `node -e ${quote(EDIT)} ${[work.edit, work.old, work.now].map(quote).join(" ")}`;
  return work.run;
}

/** Replaces what stands once in a file. */
const EDIT =
  'const fs=require("fs"),[path,old,now]=process.argv.slice(1),parts=fs.readFileSync(path,"utf8").split(old);' +
  'if(parts.length!==2)throw new Error("not there once");fs.writeFileSync(path,parts.join(now))';

/** A word as sh reads it. */
function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
