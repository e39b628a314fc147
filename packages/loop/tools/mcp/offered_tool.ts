import type { Tool, ToolDefinition } from "@tare/messages";
import { schemaChecker } from "@tare/messages/arguments";
import { createHash } from "node:crypto";
import { asRecord } from "./as_record.ts";

/** Longest name of a tool that providers take. */
const MAX_NAME = 64;

/** Largest definition of one tool, in characters of its JSON: it stands in every prompt. */
const MAX_DEFINITION_CHARS = 65_536;

/** Most tools of one server. */
const MAX_TOOLS = 1_000;

/** A tool as a server offers it. */
export interface OfferedTool extends Pick<Tool, "definition" | "stance"> {
  /** What the server itself calls it. */
  readonly ownName: string;
}

/** What a server offers, by name, and what of it can't be used, a sentence for each. */
export interface Offer {
  readonly tools: readonly OfferedTool[];
  readonly faults: readonly string[];
}

/**
 * Reads a server's list of tools. Names get the server's in front, `server__tool`; what providers don't take in one
 * becomes `_`, and of one too long a hash stands for the end. A tool whose name another has, or whose definition is
 * none, is left out. A tool that says it only reads may be called again; all others happened once.
 */
export function readOffer(server: string, listed: unknown): Offer {
  const tools = new Map<string, OfferedTool>();
  const faults: string[] = [];
  const all = Array.isArray(listed) ? listed : [];
  for (const one of all.slice(0, MAX_TOOLS)) {
    const read = readTool(server, one);
    if (typeof read === "string") {
      faults.push(read);
      continue;
    }
    const { name } = read.definition.function;
    const other = tools.get(name);
    if (other) {
      faults.push(
        `Cannot use tool ${
          quote(read.ownName)
        } of MCP server ${server}: its name becomes ${name}, and so does that ` +
          `of ${quote(other.ownName)}.`,
      );
    } else tools.set(name, read);
  }
  if (all.length > MAX_TOOLS) {
    faults.push(
      `Cannot use all tools of MCP server ${server}: it has ${all.length}, and the first ${MAX_TOOLS} are taken.`,
    );
  }
  // In the same order after every start: the prompt begins with them.
  const sorted = [...tools.entries()].sort(([a], [b]) => a < b ? -1 : 1).map(([, tool]) => tool);
  return { tools: sorted, faults };
}

function readTool(server: string, listed: unknown): OfferedTool | string {
  const { name: ownName, description, title, inputSchema, annotations } = asRecord(listed) ?? {};
  const hints = asRecord(annotations) ?? {};
  const refuse = (what: string) => `Cannot use tool ${quote(ownName)} of MCP server ${server}: ${what}.`;
  if (typeof ownName !== "string" || ownName === "") return refuse("its name must be a text");
  const schema = asRecord(inputSchema);
  if (!schema) return refuse("its inputSchema must be an object");
  if (schema.type !== undefined && schema.type !== "object") {
    return refuse(`the type of its inputSchema must be object, but it is ${quote(schema.type)}`);
  }
  const says = [description, title, hints.title].find((text) => typeof text === "string" && text !== "");
  const definition: ToolDefinition = {
    type: "function",
    function: {
      name: toolName(server, ownName),
      ...(says !== undefined && { description: String(says).replaceAll("\0", "").toWellFormed() }),
      parameters: { ...schema, type: "object" },
    },
  };
  const { length } = JSON.stringify(definition);
  if (length > MAX_DEFINITION_CHARS) {
    return refuse(`its definition has ${length} characters, and at most ${MAX_DEFINITION_CHARS} may be`);
  }
  try {
    schemaChecker(schema);
  } catch (error) {
    return refuse(`its inputSchema is no JSON Schema: ${(error as Error).message}`);
  }
  return { ownName, definition, stance: hints.readOnlyHint === true ? "rederivable" : "once" };
}

function toolName(server: string, own: string): string {
  const name = `${server}__${own.replaceAll(/[^A-Za-z0-9_-]/g, "_")}`;
  if (name.length <= MAX_NAME) return name;
  const hash = createHash("sha256").update(own).digest("hex").slice(0, 8);
  return `${name.slice(0, MAX_NAME - hash.length - 1)}_${hash}`;
}

/** What a server says may be anything. */
function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? "without a name";
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
