import type { Tool } from "@tare/messages";

/** Tools that come and go while the server runs, such as those of MCP servers. */
export interface ToolSource {
  /** Names of the servers that they come from. The name of each tool begins with its server's and `__`. */
  readonly names: readonly string[];
  /** The tools of these servers, as far as they are known without waiting. */
  known(names: readonly string[]): readonly Tool[];
  /** The tools of these servers as they are now, and what people should know of those that aren't there. Never rejects. */
  take(names: readonly string[], signal?: AbortSignal): Promise<TakenTools>;
}

/** The tools of a turn. */
export interface TakenTools {
  readonly tools: readonly Tool[];
  /** What isn't there though the session may use it, a sentence for each. */
  readonly warnings: readonly string[];
}

/** What a session may be given by name, to have all tools of a server. */
export function allToolsOf(server: string): string {
  return `${server}__*`;
}

/** Whether what a session was given is this tool, or all tools of its server. */
export function includesTool(given: readonly string[], name: string): boolean {
  const server = name.split("__", 1)[0]!;
  return given.includes(name) || (server !== name && given.includes(allToolsOf(server)));
}

/** What a session's tools are chosen from. */
export interface SessionToolsOptions {
  /** What the session was given: names of tools, or all tools of a server. */
  readonly given: readonly string[];
  /** Tools that are always there. */
  readonly own: readonly Tool[];
  /** Where others come from. Default: nowhere. */
  readonly source?: ToolSource | undefined;
  /** Names of those that may be used; the others are there and refuse. Default: all. */
  readonly allowed?: readonly string[] | undefined;
}

/** The tools of one session: fixed during a turn, looked up anew for the next. */
export class SessionTools {
  readonly #own: readonly Tool[];
  readonly #given: readonly string[];
  readonly #allowed: readonly string[] | undefined;
  readonly #source: ToolSource | undefined;
  /** The servers that it uses: no other is waited for. */
  readonly #servers: readonly string[];
  #taken: readonly Tool[] | undefined;

  /** No turn was played yet. */
  constructor({ given, own, source, allowed }: SessionToolsOptions) {
    this.#allowed = allowed;
    this.#given = given;
    this.#own = own.filter(({ definition }) => given.includes(definition.function.name));
    this.#source = source;
    this.#servers = source?.names.filter((name) => given.some((one) => one.startsWith(`${name}__`))) ?? [];
  }

  /** Those of the last turn; before the first one those that are known. */
  get current(): readonly Tool[] {
    return this.#taken ?? this.#chosen(this.#source?.known(this.#servers) ?? []);
  }

  /** Those of the turn that starts now. */
  async take(signal?: AbortSignal): Promise<TakenTools> {
    const { tools, warnings } = this.#servers.length === 0
      ? { tools: [], warnings: [] }
      : await this.#source!.take(this.#servers, signal);
    this.#taken = this.#chosen(tools);
    return { tools: this.#taken, warnings };
  }

  #chosen(tools: readonly Tool[]): readonly Tool[] {
    const chosen = tools.filter(({ definition }) => includesTool(this.#given, definition.function.name));
    return restrictTools([...this.#own, ...chosen], this.#allowed);
  }
}

/** Tools of which only some may be used: the others stay among them, so that a prompt that shows them is the same. */
export function restrictTools(
  tools: readonly Tool[],
  allowed: readonly string[] | undefined,
): readonly Tool[] {
  if (!allowed) return tools;
  return tools.map((tool) => {
    const { name } = tool.definition.function;
    if (allowed.includes(name)) return tool;
    const content =
      `Cannot run ${name}: a helper may not use it. Do without, or say in your answer what is missing.`;
    const { resolve: _resolve, ...rest } = tool;
    return { ...rest, run: () => ({ content, error: true }) };
  });
}
