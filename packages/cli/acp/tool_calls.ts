import type { ToolCallContent, ToolCallLocation, ToolKind } from "@agentclientprotocol/sdk";
import { isAbsolute, join } from "@std/path";
import { fenced, oneLine } from "@tare/server/internal/format";
import { readParts } from "../call_title.ts";
import { printableText } from "../terminal/printable_text.ts";

interface DescribedCall {
  readonly title: string;
  readonly kind: ToolKind;
  /** Affected files, by absolute path; none if the workspace is unknown. */
  readonly locations: ToolCallLocation[];
  readonly content: ToolCallContent[];
  readonly rawInput: unknown;
}

const TITLE_CHARS = 160;

const KINDS: Readonly<Record<string, ToolKind>> = {
  recall: "read",
  find_tools: "search",
  background: "execute",
};

type Fields = Readonly<Record<string, unknown>>;

/** Describes a call. `text` is the JSON of its arguments; relative paths are resolved against `workspace`. */
export function describeToolCall(
  { name, text, workspace }: {
    readonly name: string;
    readonly text: string;
    readonly workspace?: string | undefined;
  },
): DescribedCall {
  const rawInput = parse(text);
  const fields: Fields = typeof rawInput === "object" && rawInput !== null ? rawInput as Fields : {};
  const inner = string(fields, "name");
  if (name === "call_tool" && inner !== undefined) {
    return {
      ...describeToolCall({ name: inner, text: JSON.stringify(fields.arguments ?? {}), workspace }),
      rawInput,
    };
  }
  const path = string(fields, "path");
  const absoluteOf = (path: string | undefined) =>
    path === undefined || isAbsolute(path)
      ? path
      : workspace === undefined
      ? undefined
      : join(workspace, path);
  const absolute = absoluteOf(path);
  const at = (part: Fields): ToolCallLocation[] => {
    const [path, line] = [absoluteOf(string(part, "path")), part.start_line];
    return path === undefined ? [] : [{ path, ...(typeof line === "number" && { line }) }];
  };
  const described = (kind: ToolKind, title: string, more: Partial<DescribedCall> = {}): DescribedCall => ({
    title: oneLine(printableText(title), TITLE_CHARS),
    kind,
    locations: at({ path }),
    content: [],
    rawInput,
    ...more,
  });
  const isWhole = path !== undefined || !["read_file", "write_file", "edit_file"].includes(name);
  switch (isWhole ? name : "") {
    case "read_file": {
      const parts = readParts(fields).filter(({ path }) => typeof path === "string");
      const titles = parts.map(({ path, start_line: start, end_line: end }) =>
        `${path}${start === undefined && end === undefined ? "" : ` (lines ${start ?? 1}–${end ?? "…"})`}`
      );
      return described("read", `Read ${titles.join(", ")}`, { locations: parts.flatMap(at) });
    }
    case "list_files":
      return described("read", `List ${path ?? "the workspace"}`);
    case "search_files":
      return described(
        "search",
        `Search ${code(string(fields, "pattern") ?? "")} in ${path ?? "the workspace"}`,
      );
    case "write_file":
      return described("edit", `Write ${path}`, { content: diff(absolute, { newText: fields.content }) });
    case "edit_file": {
      const { old_text: oldText, new_text: newText } = fields;
      return described("edit", `Edit ${path}`, { content: diff(absolute, { oldText, newText }) });
    }
    case "fetch":
      return described("fetch", `Read ${string(fields, "url") ?? "a page"}`);
    case "shell":
      return described("execute", code(string(fields, "command") ?? ""));
    default:
      return described(KINDS[name] ?? "other", text === "{}" ? name : `${name} ${text}`);
  }
}

/** Returns a tool's text in a code block, so that editors don't render it as Markdown. */
export function toolText(text: string): ToolCallContent[] {
  return text === ""
    ? []
    : [{ type: "content", content: { type: "text", text: fenced(printableText(text)) } }];
}

function diff(
  path: string | undefined,
  { oldText, newText }: { readonly oldText?: unknown; readonly newText: unknown },
): ToolCallContent[] {
  if (path === undefined || typeof newText !== "string") return [];
  return [{ type: "diff", path, newText, ...(typeof oldText === "string" && { oldText }) }];
}

function code(text: string): string {
  const flat = oneLine(printableText(text), TITLE_CHARS - 20);
  return flat.includes("`") ? flat : `\`${flat}\``;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function string(fields: Fields, name: string): string | undefined {
  const value = fields[name];
  return typeof value === "string" ? value : undefined;
}
