import { parsePlaceholder } from "@tare/prune/internal";
import type { Entry, ModelTurn, Reply, WantedCall } from "../agents/model.ts";

export type Work =
  | { readonly read: string; readonly from?: number; readonly to?: number }
  | { readonly search: string; readonly in?: string }
  | { readonly write: string; readonly text: string }
  | { readonly edit: string; readonly old: string; readonly now: string }
  | { readonly run: string };

/** Returns tool calls for concurrent actions; `shows` matches the useful lines. */
export type Hands = (works: readonly Work[], shows?: RegExp) => readonly WantedCall[];

type Want =
  | { readonly works: readonly Work[]; readonly shows?: RegExp }
  /** To have something back that left. */
  | { readonly recall: Readonly<Record<string, unknown>> }
  /** To write down what came of that, with the next step. */
  | { readonly note: string; readonly text: string }
  /** To read what it wrote down in this turn, if it did. */
  | { readonly noted: string }
  /** To see all that its prompt shows. */
  | "everything";

/** One turn of a worker. Each request's result is returned as visible in the prompt. */
export type Turn = (question: string) => Generator<Want, string, string>;

/**
 * Returns a worker as a model that uses nothing but its prompt: each request restarts its turn with the
 * results that are still visible, evicted ones are recalled, and calls with an unknown outcome are repeated,
 * so that every action must be idempotent.
 *
 * @param turns The user's requests, with the worker's turns.
 */
export function workerModel(
  turns: readonly { readonly question: string; readonly turn: Turn }[],
  hands: Hands,
): (turn: ModelTurn) => Reply {
  const tools = hands([{ run: "" }]).map(({ name }) => name);
  return ({ entries, tools: offered }) => {
    // A request for a title, or the like.
    if (!tools.every((name) => offered.includes(name))) return { text: "A title", calls: [] };
    const at = turns.findLastIndex(({ question }) => entries.some((item) => isRequest(item, question)));
    const current = turns[at];
    if (!current) return { text: "What is to be done?", calls: [] };
    const start = entries.findLastIndex((item) => isRequest(item, current.question));
    return nextReply(current.turn(current.question), {
      before: entries.slice(0, start + 1),
      since: entries.slice(start + 1),
      hands,
      mayRecall: offered.includes("recall"),
    });
  };
}

function isRequest(item: Entry, question: string): boolean {
  // Some agents quote their input.
  const plain = (text: string) => text.replaceAll(/[\\"]/g, "");
  return item.type === "text" && item.role === "user" && plain(item.text).includes(plain(question));
}

function nextReply(worker: ReturnType<Turn>, { before, since, hands, mayRecall }: {
  readonly before: readonly Entry[];
  readonly since: readonly Entry[];
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
  let reported = "";
  for (;;) {
    const { value: want, done: isAnswer } = worker.next(reported);
    if (isAnswer) return reply([], want);
    if (want === "everything") {
      reported = [...before, ...since].map((item) => item.type === "call" ? item.args : item.text).join("\n");
    } else if ("noted" in want) {
      const start = notes.lastIndexOf(`${want.noted}: `);
      reported = start < 0 ? "" : notes.slice(start + want.noted.length + 2).split("\n", 1)[0]!;
    } else if ("note" in want) {
      unwritten.push(`${want.note}: ${want.text}`);
    } else if ("recall" in want) {
      const args = JSON.stringify(want.recall);
      const same = recalled.filter((call) => call.args === args);
      const result = same.map(({ id }) => results.get(id) ?? "").findLast((text) => !parsePlaceholder(text));
      if (result === undefined && mayRecall && same.length < MAX_SAME) {
        return reply([{ name: "recall", args: want.recall }]);
      }
      reported = result ?? "";
    } else {
      const wanted = hands(want.works, want.shows);
      do {
        const made = worked.slice(done, done + wanted.length);
        if (made.length < wanted.length) return reply(wanted);
        done += made.length;
        reported = made.map(({ id }) => results.get(id) ?? "").join("\n");
      } while (UNKNOWN.test(reported));
    }
  }
}

const MAX_SAME = 3;

const UNKNOWN = /^Cannot report the result: interrupted/m;

export function* work(...works: readonly Work[]): Generator<Want, string, string> {
  return yield { works };
}

/** Does actions of which the worker needs only some lines. */
export function* workShowing(shows: RegExp, ...works: readonly Work[]): Generator<Want, string, string> {
  return yield { works, shows };
}

/**
 * Returns the first group of a match in a visible text, or in recalled ones (lines that contain `find`, or
 * all), and records it.
 */
export function* found(text: string, match: RegExp, find?: string): Generator<Want, string, string> {
  const valueIn = (text: string) => {
    const value = match.exec(text)?.[1];
    return value?.includes("[elided:") ? undefined : value;
  };
  return yield* retaining(`Of ${match.source}`, function* () {
    const value = valueIn(text);
    if (value !== undefined) return value;
    // A recalled text may contain further placeholders.
    const refs = new Set(refsIn(text).toReversed());
    for (const ref of refs) {
      const back = yield* retaining(`In ${ref} of ${match.source}`, function* () {
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

/** Records a value of visible content for the rest of the turn. `make` may only recall. */
export function* retaining<T>(
  name: string,
  make: () => Generator<Want, T, string>,
): Generator<Want, T, string> {
  const noted = yield { noted: name };
  if (noted !== "") return JSON.parse(noted);
  const value = yield* make();
  yield { note: name, text: JSON.stringify(value) };
  return value;
}

/** Returns the complete only result of a step, if its middle was removed. */
export function* whole(text: string): Generator<Want, string, string> {
  const placeholder = text.split("\n").map(parsePlaceholder).find((one) => one !== undefined);
  return placeholder ? yield* recalled(placeholder.ref, undefined) : text;
}

/** Recalls a reference: lines that contain a text, or all of it, piece by piece. */
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

const CUT = /\n\[characters .*continue with offset (\d+)\]$/;

/** Searches everything in the worker's prompt: texts, calls and results, in this turn and before. */
export function* remembered(match: RegExp, find?: string): Generator<Want, string, string> {
  return yield* found(yield "everything", match, find);
}

/** Returns a file's content from the result of a step that read nothing else. */
export function fileIn(text: string): string {
  return text.replace(/^lines \d+-\d+ of \d+.*\n/, "").replace(/\n?$/, "\n");
}

/** Returns the lines that a search has found: after their paths, or under them. */
export function hits(text: string): readonly { readonly path: string; readonly line: string }[] {
  let heading = "";
  return text.split("\n").flatMap((text) => {
    const [, path = heading, line] = /^(?:(?:\.\/)?([^:]+):)?\d+: ?(.*)$/.exec(text) ?? [];
    if (line !== undefined) return [{ path, line: line.trim() }];
    heading = text;
    return [];
  });
}

/** Tare's tools: one call reads all files and ranges that follow one another. */
export const TARE: Hands = (works) => {
  const calls: WantedCall[] = [];
  let parts: Readonly<Record<string, unknown>>[] = [];
  for (const [at, work] of works.entries()) {
    const call = tareCall(work);
    if (!("read" in work)) {
      calls.push(call);
      continue;
    }
    parts = [...parts, call.args];
    if (at + 1 < works.length && "read" in works[at + 1]!) continue;
    const [first, ...also] = parts;
    calls.push({ ...call, args: { ...first, ...(also.length > 0 && { also }) } });
    parts = [];
  }
  return calls;
};

/** Tare's tools called by programs: only useful lines enter the prompt. */
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

const EDIT =
  'const fs=require("fs"),[path,old,now]=process.argv.slice(1),parts=fs.readFileSync(path,"utf8").split(old);' +
  'if(parts.length!==2)throw new Error("not there once");fs.writeFileSync(path,parts.join(now))';

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
