import type { Line } from "./program.ts";

/** Returns a new Agent Client Protocol session in `cwd` with these prompts. */
export function acpConversation(texts: readonly string[], cwd: string): readonly Line[] {
  return [
    HELLO,
    ask(2, "session/new", { cwd, mcpServers: [] }),
    ...texts.map((text, at) => ({
      line: (heard: string) => {
        const sessionId = /"sessionId":"([\w-]+)"/.exec(heard)?.[1];
        return ask(3 + at, "session/prompt", { sessionId, prompt: [{ type: "text", text }] }).line;
      },
      until: ask(3 + at, "", {}).until,
    })),
  ];
}

export function acpPrompt(
  text: string,
  { sessionId, cwd }: { readonly sessionId: string | undefined; readonly cwd: string },
): readonly Line[] {
  return [
    HELLO,
    ask(2, "session/load", { sessionId, cwd, mcpServers: [] }),
    ask(3, "session/prompt", { sessionId, prompt: [{ type: "text", text }] }),
  ];
}

function ask(id: number, method: string, params: unknown) {
  return {
    line: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
    until: new RegExp(`"id":${id}\\b.*"result"|"result".*"id":${id}\\b`),
  };
}

const HELLO = ask(1, "initialize", { protocolVersion: 1 });
