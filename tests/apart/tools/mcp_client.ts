import * as sdk from "@modelcontextprotocol/client";
import type { Tool, ToolContext, ToolOutput } from "@tare/messages";
import { type McpOptions, mcpServers, readMcpServers } from "@tare/tools/mcp";

export interface TriedServers extends AsyncDisposable {
  readonly warnings: readonly string[];
  tools(...names: readonly string[]): Promise<ReadonlyMap<string, Tool>>;
}

export function tryServers(
  entries: Readonly<Record<string, unknown>>,
  options: Partial<McpOptions> = {},
): TriedServers {
  const warnings: string[] = [];
  const servers = mcpServers(readMcpServers(JSON.stringify({ mcpServers: entries }), "/"), {
    sdk: () => Promise.resolve(sdk),
    cwd: Deno.cwd(),
    env: { PATH: Deno.env.get("PATH") ?? "" },
    onWarning: (sentence) => warnings.push(sentence),
    ...options,
  });
  servers.start();
  return {
    warnings,
    async tools(...names) {
      const { tools, warnings: missing } = await servers.take(names.length > 0 ? names : servers.names);
      warnings.push(...missing);
      return new Map(tools.map((tool) => [tool.definition.function.name, tool]));
    },
    [Symbol.asyncDispose]: () => servers.close(),
  };
}

export async function call(
  tools: ReadonlyMap<string, Tool>,
  name: string,
  { args = {}, ...context }: { readonly args?: Record<string, unknown> } & Partial<ToolContext> = {},
): Promise<ToolOutput> {
  const tool = tools.get(name);
  if (!tool) throw new Error(`There is no tool ${name} among ${[...tools.keys()].join(", ")}.`);
  return await tool.run(args, { signal: new AbortController().signal, progress() {}, ...context });
}
