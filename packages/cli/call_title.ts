/** A call in words: `Read lib/hooks.js (1–80)`. */
export interface CallTitle {
  readonly title: string;
  /** Arguments that the title doesn't contain. */
  readonly rest: Readonly<Record<string, unknown>>;
}

type Fields = Readonly<Record<string, unknown>>;

/** Returns a title and the names of the arguments in it; undefined if required ones are missing. */
type Describe = (fields: Fields) => readonly [title: string, ...names: readonly string[]] | undefined;

const text = (value: unknown) => typeof value === "string" && value !== "" ? value : undefined;

/** Returns a title that consists of a verb and one argument. */
function of(verb: string, name: string): Describe {
  return ({ [name]: value }) => text(value) === undefined ? undefined : [`${verb} ${value}`, name];
}

/** Returns the files and ranges that a call of `read_file` reads. */
export function readParts({ also, ...first }: Fields): readonly Fields[] {
  return [first, ...(Array.isArray(also) ? also : []).map((part) => Object(part))];
}

function partTitle({ path, start_line: start, end_line: end }: Fields): string | undefined {
  if (text(path) === undefined) return undefined;
  if (start === undefined && end === undefined) return `${path}`;
  return `${path} (${JSON.stringify(start ?? 1)}–${end === undefined ? "" : JSON.stringify(end)})`;
}

const TITLES: Readonly<Record<string, Describe>> = {
  read_file(fields) {
    const parts = readParts(fields).map(partTitle);
    if (parts.includes(undefined)) return undefined;
    return [`Read ${parts.join(", ")}`, "path", "start_line", "end_line", "also"];
  },
  list_files({ path, glob }) {
    const files = text(glob) === undefined ? "" : ` (${glob})`;
    return [`List ${text(path) ?? "."}${files}`, "path", ...files ? ["glob"] : []];
  },
  search_files({ pattern, path, glob }) {
    if (text(pattern) === undefined) return undefined;
    const where = [path, glob].flatMap((one) => text(one) ?? []).join(", ");
    return [`Search ${pattern}${where && ` in ${where}`}`, "pattern", "path", ...text(glob) ? ["glob"] : []];
  },
  write_file: of("Write", "path"),
  edit_file: of("Edit", "path"),
  shell: of("Run", "command"),
  background({ name, stop }) {
    if (text(name) === undefined) return undefined;
    return stop === true ? [`Stop ${name}`, "name", "stop"] : [`Check ${name}`, "name"];
  },
  fetch: of("Fetch", "url"),
  read_skill: of("Read", "path"),
  find_tools: of("Find tools:", "query"),
  recall: ({ find }) => [`Recall ${text(find) ?? "evicted text"}`, "find"],
  run_program: () => ["Run a program"],
  delegate: of("Subagent:", "task"),
  update_plan: () => ["Update the plan"],
};

/** Returns a call in words. `args` is the JSON of its arguments. */
export function callTitle({ name, args }: { readonly name: string; readonly args: string }): CallTitle {
  const fields = parse(args);
  if (!fields) return { title: args === "" ? name : `${name} ${args}`, rest: {} };
  const { name: inner, arguments: given, ...more } = fields;
  if (name === "call_tool" && typeof inner === "string" && Object.keys(more).length === 0) {
    return callTitle({ name: inner, args: JSON.stringify(given ?? {}) });
  }
  const describe = Object.hasOwn(TITLES, name) ? TITLES[name] : undefined;
  const [title = name, ...names] = describe?.(fields) ?? [];
  return { title, rest: Object.fromEntries(Object.entries(fields).filter(([key]) => !names.includes(key))) };
}

/** Returns a call in words; of tools that have no title, with its arguments. */
export function callInShort(call: { readonly name: string; readonly args: string }): string {
  const { title, rest } = callTitle(call);
  const [first = "", ...more] = title.trim().split("\n");
  if (title !== call.name) return more.length === 0 ? first : `${first} …`;
  const words = Object.entries(rest).map(([name, value]) => `${name}: ${argumentText(value)}`);
  return [title, words.join(", ")].filter(Boolean).join(" ");
}

/** Returns an argument: texts as they are, other values as JSON. */
export function argumentText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function parse(json: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Fields : undefined;
  } catch {
    return undefined;
  }
}
