import { type CountTokens, estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { checkGiven, hashPiece, sliceText } from "@tare/messages/internal";

/** Most tokens that a list may take; the longer it is, the less it says of each tool. */
const MAX_TOKENS = 2_400;

/** Most characters of a tool's line behind its name, where there is room for that, and where there is less. */
const LINE_CHARS = [100, 50, 0];

const BESIDES = "Besides the tools that you are given, there are";
const CHANGED = "The tools behind find_tools and call_tool have changed.";

/**
 * What a model is told of tools that its requests don't hold: their names and one line each, and how to get at the rest. The
 * same tools give the same text. The longer the list, the less it says of each tool; names are all there as long as there is
 * room for them in 2,400 tokens.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { Catalogue } from "@tare/schemas";
 *
 * const tool = (name: string) => ({ type: "function", function: { name } }) as const;
 * const before = new Catalogue([tool("read")]);
 * assertEquals(new Catalogue([tool("read")]).changes(before.told), undefined);
 * assertEquals(new Catalogue([]).changes(before.told)?.split("\n").at(-1), "Gone: read");
 * ```
 */
export class Catalogue {
  /** What a model knows once it was told of these tools. Plain data. */
  readonly told: Readonly<Record<string, number>>;
  readonly #tools: readonly ToolDefinition[];
  readonly #countTokens: CountTokens;

  /** A catalogue of these tools. */
  constructor(
    tools: readonly ToolDefinition[],
    options: { readonly countTokens?: CountTokens | undefined } = {},
  ) {
    checkGiven("Catalogue()", { tools, options }, {
      tools: "array",
      options: { "countTokens?": "counter" },
    });
    this.#tools = tools;
    this.#countTokens = options.countTokens ?? estimateTokens;
    this.told = Object.fromEntries(tools.map((tool) => [tool.function.name, hashPiece(tool)]));
  }

  /** Whether a message says what {@linkcode Catalogue.text} or {@linkcode Catalogue.changes} gave. */
  static tells({ role, content }: Message): boolean {
    const isTold = typeof content === "string" &&
      (content.startsWith(BESIDES) || content.startsWith(CHANGED));
    return role === "system" && isTold;
  }

  /** What tells of all of them, at the prompt's beginning; empty where there are none. */
  text(): string {
    if (this.#tools.length === 0) return "";
    return [
      `${BESIDES} ${this.#tools.length} more. You see here what each is called and what it ` +
      "is for. find_tools shows how it is called; call_tool calls it.",
      ...listed(this.#tools, this.#countTokens),
    ].join("\n");
  }

  /**
   * What a model is to be told that was `told` of other tools, at the prompt's end, so that nothing in front of it changes.
   * Nothing if they are the same.
   */
  changes(told: Catalogue["told"]): string | undefined {
    const wasTold = ({ function: { name } }: ToolDefinition) => Object.hasOwn(told, name);
    const added = this.#tools.filter((tool) => !wasTold(tool));
    const changed = this.#tools.filter((tool) =>
      wasTold(tool) && told[tool.function.name] !== this.told[tool.function.name]
    );
    const gone = Object.keys(told).filter((name) => !Object.hasOwn(this.told, name));
    if (added.length + changed.length + gone.length === 0) return undefined;
    return [
      CHANGED,
      ...(added.length > 0 ? ["New:", ...listed(added, this.#countTokens)] : []),
      ...(changed.length > 0
        ? ["Called in another way than before, see find_tools:", ...listed(changed, this.#countTokens)]
        : []),
      ...(gone.length > 0 ? [`Gone: ${gone.join(", ")}`] : []),
    ].join("\n");
  }
}

/** A line for each tool, as long as there is room for it; else all names; else as many as there is room for. */
function listed(tools: readonly ToolDefinition[], countTokens: CountTokens): string[] {
  for (const chars of LINE_CHARS) {
    const lines = chars > 0 ? tools.map((tool) => toolLine(tool, chars)) : [names(tools)];
    if (countTokens(lines.join("\n")) <= MAX_TOKENS) return lines;
  }
  const share = MAX_TOKENS / countTokens(names(tools));
  const shown = Math.max(1, Math.floor(share * tools.length));
  return [
    `${names(tools.slice(0, shown))}, and ${tools.length - shown} more: search for them with find_tools`,
  ];
}

function names(tools: readonly ToolDefinition[]): string {
  return tools.map((tool) => tool.function.name).join(", ");
}

/** A tool by its name and the first sentence of its description, in one line of so many characters behind the name. */
export function toolLine({ function: { name, description = "" } }: ToolDefinition, maxChars: number): string {
  // What others wrote gets no line of its own.
  const plain = description.replaceAll(/[\s\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim();
  const sentence = /^.*?[.!?](?= |$)/u.exec(plain)?.[0] ?? plain;
  const text = sentence.length <= maxChars ? sentence : `${sliceText(sentence, 0, maxChars - 1).trimEnd()}…`;
  return text === "" ? name : `${name}: ${text}`;
}
