import type { CountTokens, Message } from "@tare/messages";
import { post } from "./turn.ts";

/** Tokens of one tool result in a long session. */
const RESULT_TOKENS = 2_000;

/** A session of at least so many tokens, like one of an agent that reads files; no two of different seeds share a text. */
export function longSession(
  tokens: number,
  { seed, count }: { seed: number; count: CountTokens },
): Message[] {
  const messages: Message[] = [{ role: "user", content: `Task ${seed}: read everything.` }];
  for (let call = 0; call * RESULT_TOKENS < tokens; call++) {
    const id = `call_${call}`;
    const fn = { name: "read_file", arguments: JSON.stringify({ path: `src/file_${call}.ts` }) };
    messages.push(
      { role: "assistant", content: null, tool_calls: [{ id, type: "function", function: fn }] },
      { role: "tool", tool_call_id: id, content: resultText(`${seed}.${call}`, count) },
    );
  }
  messages.push({ role: "assistant", content: "I have read everything." });
  return messages;
}

/** A session of so many messages: many short turns, in each of which a file is read. */
export function talkedSession(messages: number, { seed }: { readonly seed: number }): Message[] {
  return Array.from({ length: messages / 4 }, (_, turn): Message[] => {
    const id = `call_${turn}`;
    const fn = { name: "read_file", arguments: JSON.stringify({ path: `src/file_${turn}.ts` }) };
    return [
      { role: "user", content: `Task ${seed}.${turn}: read the next file, and say what it is about.` },
      { role: "assistant", content: null, tool_calls: [{ id, type: "function", function: fn }] },
      { role: "tool", tool_call_id: id, content: `${LINE} ${seed}.${turn}`.repeat(3) },
      {
        role: "assistant",
        content: `File ${turn} holds a function that reads lines, as the one before it did.`,
      },
    ];
  }).flat();
}

const LINE = "export function readLine(source: string): number { return source.length + offset; } //";
let linesPerResult: number | undefined;

function resultText(name: string, count: CountTokens): string {
  const lines = (many: number) =>
    Array.from({ length: many }, (_, line) => `${LINE} ${name} line ${line}`).join("\n");
  linesPerResult ??= Math.ceil(RESULT_TOKENS / count(lines(100)) * 100);
  return lines(linesPerResult);
}

/** Imports sessions, some at a time. Gives their ids. */
export async function importSessions(
  server: string,
  sessions: readonly (() => readonly Message[])[],
): Promise<string[]> {
  const ids: string[] = [];
  for (let at = 0; at < sessions.length; at += 10) {
    const lines = sessions.slice(at, at + 10).map((make) => JSON.stringify({ messages: make() }));
    const response = await post(`${server}/v1/sessions/import`, lines.join("\n"), "application/x-ndjson");
    const made: { sessions: { id: string }[] } = await response.json();
    ids.push(...made.sessions.map(({ id }) => id));
  }
  return ids;
}
