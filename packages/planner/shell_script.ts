/** A command of a script, such as `sed -n 1,9p a.ts`. */
export interface ShellCommand {
  /** Name without folders and `.exe`, in lower case. */
  readonly name: string;
  /** Words after the name, without quotes. */
  readonly words: readonly string[];
  /** Whether its output goes to a file. */
  readonly isSilent: boolean;
}

export interface ShellScript {
  readonly pipelines: readonly (readonly ShellCommand[])[];
  /** Whether all of it was parsed: false with here-documents, substitutions and open quotes. */
  readonly isComplete: boolean;
}

const TOKEN =
  /[^\S\n]*(?:#[^\n]*|(\d*(?:&>>?|>[>|&]?|<<?<?)-?)|(\|\||&&|\|&?|[;&\n()]+)|((?:'[^']*'|"[^"\\]*(?:\\[^][^"\\]*)*"|\\[^]|[^\s'"\\;&|<>()]+)+))/y;

const MAX_CHARACTERS = 100_000;

const KEYWORDS = /^(?:[!{}]|do|then|else|elif|if|while|until|done|fi|esac|\w+=.*)$/s;
const WRAPPERS = /^(?:sudo|env|command|exec|nice|nohup|time|timeout|stdbuf|builtin|busybox|winpty|unbuffer)$/;
const WRAPPER_WORD = /^(?:-.*|\d+[smhd]?|\{\}|\w+=.*)$/s;
const SHELLS = /^(?:(?:ba|z|da|k|fi)?sh|pwsh|powershell|cmd)$/;
/** Shells whose script is all words after the option. */
const TAKES_ALL_WORDS = /^(?:pwsh|powershell|cmd)$/;
const SCRIPT_OPTION = /^(?:-[a-z]*c|-command|\/c)$/i;
const MAX_NESTED = 4;

/** Parses a script, including nested ones (`bash -lc "…"`), in linear time. */
export function readScript(script: string, depth = 0): ShellScript {
  const pipelines: ShellCommand[][] = [];
  let pipeline: ShellCommand[] = [];
  let isComplete = script.length <= MAX_CHARACTERS && !/`|[$<>]\(/.test(script);
  script = script.slice(0, MAX_CHARACTERS);
  let words: string[] = [];
  let isSilent = false;
  const endCommand = () => {
    const inner = innerScript(words);
    if (inner !== undefined && depth < MAX_NESTED) {
      const read = readScript(inner, depth + 1);
      isComplete &&= read.isComplete;
      if (!isSilent) pipelines.push(...read.pipelines.map((commands) => [...commands]));
    } else {
      const command = commandOf(words, isSilent);
      if (command) pipeline.push(command);
    }
    words = [];
    isSilent = false;
  };
  let isTarget = false;
  for (let end = 0; end < script.length;) {
    TOKEN.lastIndex = end;
    const [token, redirect, separator, word] = TOKEN.exec(script) ?? [];
    if (!token) {
      isComplete &&= script.slice(end).trim() === "";
      break;
    }
    end += token.length;
    if (redirect?.includes("<<")) {
      // Text after a here-document can't be distinguished from its content.
      isComplete = false;
      isSilent = true;
      const line = script.indexOf("\n", end);
      script = script.slice(0, line < 0 ? script.length : line);
    }
    if (redirect) {
      isTarget = true;
      isSilent ||= /^[1&]?&?>/.test(redirect) && !redirect.endsWith("&");
    } else if (separator) {
      endCommand();
      if (!separator.startsWith("|") || separator === "||") {
        pipelines.push(pipeline);
        pipeline = [];
      }
    } else if (word && isTarget) isTarget = false;
    else if (word) words.push(unquoted(word));
  }
  endCommand();
  pipelines.push(pipeline);
  return { pipelines: pipelines.filter((commands) => commands.length > 0), isComplete };
}

function innerScript(words: readonly string[]): string | undefined {
  const command = commandOf(words, false);
  if (!command || !SHELLS.test(command.name)) return undefined;
  const option = command.words.findIndex((word) => SCRIPT_OPTION.test(word));
  if (option < 0) return undefined;
  const rest = command.words.slice(option + 1);
  return TAKES_ALL_WORDS.test(command.name) ? rest.join(" ") : rest[0];
}

function unquoted(word: string): string {
  return word.replace(
    /'([^']*)'|"([^"\\]*(?:\\[^][^"\\]*)*)"/g,
    (_, single?: string, double = "") => single ?? double.replace(/\\(["\\$`\n])/g, "$1"),
  );
}

function commandOf(all: readonly string[], isSilent: boolean): ShellCommand | undefined {
  let at = 0;
  while (at < all.length && KEYWORDS.test(all[at]!)) at++;
  for (;;) {
    const name = nameIn(all[at]);
    if (!WRAPPERS.test(name) || at + 1 >= all.length) {
      return name === "" ? undefined : { name, words: all.slice(at + 1), isSilent };
    }
    at++;
    while (at < all.length - 1 && WRAPPER_WORD.test(all[at]!)) at++;
  }
}

function nameIn(word = ""): string {
  return word.split(/[/\\]/).at(-1)!.replace(/\.exe$/i, "").toLowerCase();
}
