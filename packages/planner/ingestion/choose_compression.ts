import type { CallFacts, LineNumbers } from "../tools_of_agents.ts";
import { gitCommand, isReader } from "../tools_of_agents.ts";
import type { ShellCommand } from "../shell_script.ts";
import {
  asInTerminal,
  compactJson,
  compress,
  COMPRESSED,
  type Compression,
  hitPath,
  isPath,
  LEAST_EQUAL,
  type NumberedLines,
  numberMark,
} from "./ingested.ts";

const LEAST_NUMBERED = 5;
const MAX_RUNS = 8;

const LEAST_HITS = 3;
const LEAST_PATHS = 4;

const SHARED_FOLDER = 0.6;

const LONGEST_PATH = 1_000;
const NO_PATH = /[\s:"'`<>|*?(){}]/;

const REPEATED = /^\((\d+) more lines like this\)$/;

/**
 * Returns how a result is compressed (docs/mechanisms.md, Ingestion). Results that may show a file only lose
 * line numbers, which edits don't quote.
 */
export function chooseCompression(
  text: string,
  facts: CallFacts,
  { normalization, recall }: { readonly normalization: boolean; readonly recall: boolean },
): Compression {
  // It would be ambiguous whether Tare compressed it.
  if (text.startsWith(COMPRESSED)) return {};
  const lines = text.split("\n");
  const { kind, numbers, ...form } = formOf(facts);
  // Without line feeds, carriage returns end lines.
  const terminal = text.trimEnd().includes("\n") ? form.terminal : "codes";
  for (const one of numbers) {
    const runs = numberedRuns(lines, one);
    if (runs) return { numbers: { ...one, runs } };
  }
  if (!normalization || kind === "file") return {};
  if (kind === "hits") return chooseForLines(lines, kind);
  // deno-lint-ignore no-control-regex
  const plain = recall && /[\x1b\r]/.test(text) ? lines.map((line) => asInTerminal(line, terminal)) : lines;
  const hasChanged = plain.some((line, at) => line !== lines[at]);
  const json = indentationOf(hasChanged ? plain.join("\n") : text);
  return {
    ...(hasChanged && { terminal }),
    ...(json !== undefined ? { json } : chooseForLines(plain, kind)),
  };
}

function chooseForLines(lines: readonly string[], kind: ResultForm["kind"]): Compression {
  if (hasHeadings(lines)) return { headings: true };
  const folder = sharedFolderOf(lines);
  const repeats = kind === "other" && hasRepeats(lines);
  return { ...(folder !== undefined && { folder }), ...(repeats && { repeats }) };
}

/**
 * Returns the lines numbered in a form as runs that count up by one; `undefined` if they are few, in many
 * runs, or can't be restored.
 */
function numberedRuns(lines: readonly string[], form: LineNumbers): readonly NumberedLines[] | undefined {
  const { width, pad = " ", mark, blank, below } = form;
  const isFirstOnly = below !== undefined || width === 0;
  const runs: { at: number; first: number; last: number }[] = [];
  let open = false;
  let count = 0;
  for (const [at, line] of lines.entries()) {
    const end = line.indexOf(mark);
    const number = end < 0 || end > MAX_DIGITS
      ? NaN
      : Number(line.slice(0, end).replace(pad === " " ? /^ +/ : /^0+/, ""));
    const isNumbered = Number.isInteger(number) && number > 0 && line.startsWith(numberMark(form, number));
    const run = runs.at(-1);
    if (isNumbered && open && number === run!.last + 1) {
      run!.last = number;
    } else if (
      isNumbered &&
      (!isFirstOnly || runs.length === 0 && (below === undefined ? at === 0 : lines[at - 1] === below))
    ) {
      if (runs.push({ at, first: number, last: number }) > MAX_RUNS) return undefined;
      open = true;
    } else {
      // A line before the only run must not look like its first line.
      if (isNumbered && isFirstOnly && runs.length === 0) return undefined;
      if (line !== blank) open = false;
      continue;
    }
    // An empty numbered line would look like an uncounted one.
    if (blank !== undefined && line.slice(numberMark(form, number).length) === blank) return undefined;
    count++;
  }
  return count > LEAST_NUMBERED ? runs : undefined;
}

const MAX_DIGITS = 16;

/**
 * Returns the indentation of JSON, `""` if it is on one line; `undefined` if its layout can't be restored.
 */
function indentationOf(text: string): string | undefined {
  const indentation = /^[{[](?:\n( {1,8}|\t)?)?/.exec(text);
  if (!indentation || text.length < 2) return undefined;
  const [found, indent = ""] = indentation;
  if (found.length > 1 && indent === "") return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  const compact = compactJson(text);
  return compact !== text && isLaidOut(text, compact, indent) ? indent : undefined;
}

function isLaidOut(text: string, compact: string, indent: string): boolean {
  let at = 0;
  let depth = 0;
  const takes = (piece: string) => {
    const isNext = text.startsWith(piece, at);
    at += piece.length;
    return isNext;
  };
  const takesLine = () => indent === "" || takes("\n") && takesIndents();
  const takesIndents = () => {
    for (let level = 0; level < depth; level++) if (!takes(indent)) return false;
    return true;
  };
  for (const [token] of compact.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|\{\}|\[\]|[{}[\],:]|[^"{}[\],:]+/g)) {
    const opens = token === "{" || token === "[";
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    if (closes && !takesLine() || !takes(token)) return false;
    if (opens) depth++;
    if (opens && !takesLine()) return false;
    if (token === ":" && !takes(" ")) return false;
    if (token === "," && !(indent === "" ? takes(" ") : takesLine())) return false;
  }
  return at === text.length;
}

function hasHeadings(lines: readonly string[]): boolean {
  const count = lines.reduce((sum, line) => hitPath(line) === undefined ? sum : sum + 1, 0);
  if (count <= LEAST_HITS || 2 * count <= lines.length) return false;
  const compressed = compress(lines.join("\n"), { headings: true }).lines;
  return sizeOf(compressed) < sizeOf(lines) && isSame(withPaths(compressed), lines);
}

function withPaths(visible: readonly string[]): readonly string[] {
  const lines: string[] = [];
  let heading: string | undefined;
  for (const [at, line] of visible.entries()) {
    const [, sign] = /^\d+([:-])/.exec(line) ?? [];
    if (heading !== undefined && sign !== undefined) lines.push(`${heading}${sign}${line}`);
    else if (heading !== undefined && line === "--") lines.push(line);
    else if (/^\d+[:-]/.test(visible[at + 1] ?? "")) heading = line;
    else {
      lines.push(line);
      heading = undefined;
    }
  }
  return lines;
}

/**
 * Returns the folder that all paths of a list share; `undefined` if the lines are no list of paths or hardly
 * get shorter.
 */
function sharedFolderOf(lines: readonly string[]): string | undefined {
  const paths = lines.filter(isPath);
  const sure = paths.filter(isSurePath);
  if (sure.length <= LEAST_PATHS || sure.length <= SHARED_FOLDER * lines.length) return undefined;
  const folder = sharedFolder(sure);
  // A path outside the folder would read like one inside it.
  return folder !== "" && paths.every((path) => path.startsWith(folder) && path !== folder)
    ? folder
    : undefined;
}

function isSurePath(line: string): boolean {
  if (line.length > LONGEST_PATH || !/[/\\]/.test(line)) return false;
  return !NO_PATH.test(line.replace(/^[A-Za-z]:/, ""));
}

function sharedFolder([first = "", ...others]: readonly string[]): string {
  let length = first.length;
  for (const path of others) {
    let at = 0;
    while (at < length && path[at] === first[at]) at++;
    length = at;
  }
  const folder = first.slice(0, length);
  return folder.slice(0, 1 + Math.max(folder.lastIndexOf("/"), folder.lastIndexOf("\\")));
}

function hasRepeats(lines: readonly string[]): boolean {
  let equal = 0;
  let most = 0;
  for (const [at, line] of lines.entries()) {
    if (REPEATED.test(line)) return false;
    equal = line !== "" && line === lines[at - 1] ? equal + 1 : 0;
    most = Math.max(most, equal);
  }
  return most >= LEAST_EQUAL;
}

function sizeOf(lines: readonly string[]): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((line, at) => line === other[at]);
}

interface ResultForm {
  readonly kind: "file" | "hits" | "other";
  readonly terminal: NonNullable<Compression["terminal"]>;
  readonly numbers: readonly LineNumbers[];
}

function formOf({ use, reads, edits, namesFile, script, numbers }: CallFacts): ResultForm {
  if (use === "runs" && !edits) return formOfScript(script);
  const isFile = reads || edits || use === "continues" || use === undefined && namesFile;
  return { kind: isFile ? "file" : use === "finds" ? "hits" : "other", terminal: "codes", numbers };
}

function formOfScript(script: CallFacts["script"]): ResultForm {
  const terminal = "progress";
  if (!script?.isComplete) return { kind: "file", terminal, numbers: [] };
  const pipelines = script.pipelines.filter((commands) => !commands.some(({ isSilent }) => isSilent));
  const kinds = pipelines.map(kindOfPipeline);
  const files = pipelines.filter((_, at) => kinds[at] === "file").map(numbersOf);
  const [numbers] = files;
  const isNumbered = numbers && files.every((other) => JSON.stringify(other) === JSON.stringify(numbers));
  const kind = (["file", "hits"] as const).find((one) => kinds.includes(one)) ?? "other";
  return { kind, terminal, numbers: isNumbered ? [numbers] : [] };
}

const FILTERS =
  /^(?:head|tail|sed|g?awk|cut|tr|sort|uniq|wc|[ef]?grep|rg|jq|column|tee|tac|less|more|cat|nl)$/;
const WHOLE_FILTERS = /^(?:head|tail|[ef]?grep|rg|less|more|tee|cat)$/;
const SEARCHES = /^(?:[efz]?grep|rg|ag|ack|findstr|select-string|sls)$/;
const LISTS_FILES = /^-\w*[lL]|^--files/;

const OTHERS = new Set(
  ("cd pushd popd pwd ls ll dir tree mkdir rmdir rm mv cp ln touch chmod chown du df stat file wc which where whereis " +
    "locate basename dirname realpath readlink date whoami id uname hostname printenv export unset set alias source . " +
    "true false test [ [[ for case sleep wait kill pkill pgrep ps top free uptime lsof netstat ss ping dig nslookup " +
    "echo printf seq find fd npm pnpm yarn tsc eslint jest vitest mocha playwright cypress webpack vite rollup " +
    "esbuild next nx turbo lerna pip pip3 pipx uv poetry conda pytest py.test tox nox mypy pyright ruff flake8 pylint " +
    "black isort cargo rustc rustup go golangci-lint make gmake cmake ninja meson ctest bazel gradle gradlew mvn mvnw " +
    "ant sbt mix rebar3 dotnet msbuild swift xcodebuild gcc g++ clang clang++ cc c++ ld javac bundle rake rspec rails " +
    "composer phpunit docker podman docker-compose kubectl helm terraform aws gcloud az gh glab curl wget apt apt-get " +
    "dpkg brew yum dnf apk systemctl journalctl service tar zip unzip gzip gunzip deno bun node python python3 git " +
    "get-childitem gci new-item remove-item copy-item move-item get-process get-location set-location test-path")
    .split(" "),
);

/** Arguments with which a command may show a file. */
const SHOWING =
  /^(?:-exec(?:dir)?|-ok(?:dir)?|-[xX]|--exec(?:-batch)?|exec|run|cp|eval|show|diff|cat|view|attach|s3|gist|x|repl)$|^file:|contents\/|^(?:https?:\/\/)?[^/\s]+\/\S*\.[A-Za-z]\w{0,5}$/;
const SHOWS_LATER =
  /^(?:find|fd|uv|cargo|go|dotnet|swift|docker|podman|docker-compose|kubectl|helm|terraform|aws|gh|glab|curl|wget|deno|bun|tar|zip|unzip|gzip|gunzip)$/;
const SHOWS_BY_OPTION = /^(?:tar|unzip|gzip|gunzip)$/;

const GIT =
  /^(?:status|branch|fetch|clone|pull|push|commit|add|rm|mv|checkout|switch|restore|remote|tag|merge|rebase|reset|ls-files|ls-tree|ls-remote|rev-parse|rev-list|describe|shortlog|submodule|worktree|init|config|clean|gc|bisect|reflog)$/;
const PYTHON_MODULES =
  /^(?:pytest|unittest|pip|venv|build|mypy|ruff|black|isort|flake8|pylint|compileall|tox|nox)$/;

/** Returns the kind of a pipeline's output; `file` in doubt. */
function kindOfPipeline([first, ...others]: readonly ShellCommand[]): ResultForm["kind"] {
  const isFiltered = others.every(({ name, words }) =>
    FILTERS.test(name) && !(/^(?:cat|tac|nl)$/.test(name) && words.some((word) => !word.startsWith("-")))
  );
  return isFiltered && first ? kindOfCommand(first) : "file";
}

function kindOfCommand(command: ShellCommand): ResultForm["kind"] {
  const { name, words } = command;
  if (isReader(command)) return "file";
  if (SEARCHES.test(name)) return words.some((word) => LISTS_FILES.test(word)) ? "other" : "hits";
  const [first = "", ...rest] = words.filter((word) => !word.startsWith("-"));
  if (/^(?:npx|pnpx|bunx)$/.test(name)) return kindOfCommand({ name: first, words: rest, isSilent: false });
  if (name === "git") {
    const [what = "", ...given] = gitCommand(words);
    if (what === "grep") return given.some((word) => LISTS_FILES.test(word)) ? "other" : "hits";
    const hasPatch = what === "log" && given.some((word) => /^-(?:p|u|L.*|-patch.*)$/.test(word));
    return GIT.test(what) || what === "log" && !hasPatch ? "other" : "file";
  }
  if (/^python3?$/.test(name)) {
    return words[0] === "-m" && PYTHON_MODULES.test(words[1] ?? "") ? "other" : "file";
  }
  if (name === "node") return words.includes("--test") ? "other" : "file";
  if (SHOWS_BY_OPTION.test(name) && words.some((word) => /^-?\w*[Ocp]\w*$/.test(word))) return "file";
  if (SHOWS_LATER.test(name) && words.some((word) => SHOWING.test(word))) return "file";
  return OTHERS.has(name) ? "other" : "file";
}

/**
 * Returns the form of a pipeline's line numbers; `undefined` if no command numbers lines, or a later one
 * changes them.
 */
function numbersOf(pipeline: readonly ShellCommand[]): LineNumbers | undefined {
  const at = pipeline.findLastIndex((command) => numbersBy(command) !== undefined);
  const rest = pipeline.slice(at + 1);
  const staysNumbered = rest.every(({ name, words }) =>
    name === "sed"
      ? words[0] === "-n" && words.length === 2 && /^[\d,$;p ]+$/.test(words[1]!)
      : WHOLE_FILTERS.test(name) &&
        !words.some((word) => /^-\w*[no]|^--(?:line-number|only-matching)/.test(word) && /grep|rg/.test(name))
  );
  return at >= 0 && staysNumbered ? numbersBy(pipeline[at]!) : undefined;
}

function numbersBy({ name, words }: ShellCommand): LineNumbers | undefined {
  if (name === "cat") {
    const options = words.filter((word) => word.startsWith("-"));
    if (options.some((word) => /^-[A-Za-z]*b|^--number-nonblank$/.test(word))) {
      return { width: 6, mark: "\t", blank: "" };
    }
    return options.some((word) => /^-[A-Za-z]*n|^--number$/.test(word))
      ? { width: 6, mark: "\t" }
      : undefined;
  }
  return name === "nl" ? numbersByNl(words) : undefined;
}

function numbersByNl(words: readonly string[]): LineNumbers | undefined {
  let [all, width, mark] = [false, 6, "\t"];
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!;
    if (!/^-./.test(word)) continue;
    const [, long, longValue] = /^--([a-z-]+)=(.*)$/s.exec(word) ?? [];
    const option = long === undefined ? word[1]! : NL_OPTIONS[long] ?? long;
    const value = long === undefined ? word.length > 2 ? word.slice(2) : words[++at] ?? "" : longValue ?? "";
    if (option === "b" && (value === "a" || value === "t")) all = value === "a";
    else if (option === "w" && /^\d{1,2}$/.test(value)) width = Number(value);
    else if (option === "s" && value !== "" && !/[\d\n ]/.test(value[0]!)) mark = value;
    else if (option !== "v") return undefined;
  }
  return { width, mark, ...(!all && { blank: " ".repeat(width + mark.length) }) };
}

const NL_OPTIONS: Readonly<Record<string, string>> = {
  "body-numbering": "b",
  "number-width": "w",
  "number-separator": "s",
  "starting-line-number": "v",
};
