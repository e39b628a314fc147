import type { Message } from "@tare/messages";
import { type SimulatedModel, type SimulatedToolCall, toolCall } from "@tare/simulator";

/** Model that keeps tools busy, with its requested side effects. */
export interface WorkingModel {
  readonly model: SimulatedModel;
  /** Tokens that shell commands append to {@linkcode LOG}, each in one call. */
  readonly appended: ReadonlySet<string>;
  /** Names of files that `write_file` writes to {@linkcode OUT}, each in one call. */
  readonly written: ReadonlySet<string>;
}

export const LOG = "log.txt";

export const OUT = "out";

export const NOTES = "notes.txt";

export function asksForSummary(text: string): boolean {
  return /summarize the older part|Summarize it\./.test(text);
}

const MAX_STEPS = 3;

/**
 * Returns a model with one to three steps per turn, then an answer: reads, slow commands that append a line,
 * and written files. Some results are huge. It also writes summaries.
 */
export function workingModel(random: () => number): WorkingModel {
  const appended = new Set<string>();
  const written = new Set<string>();
  let made = 0;
  const token = () => `token-${++made}`;

  const read = () => toolCall("read_file", { path: NOTES, start_line: 1 + Math.floor(random() * 100) });
  const append = () => {
    const line = token();
    appended.add(line);
    const pause = () => (random() * 0.02).toFixed(3);
    const tail = random() < 0.15 ? "; seq 1 9000" : "";
    return toolCall("shell", {
      command: `sleep ${pause()}; echo ${line} >> ${LOG}; sleep ${pause()}; echo ${line}${tail}`,
    });
  };
  const write = () => {
    const name = token();
    written.add(name);
    return toolCall("write_file", { path: `${OUT}/${name}`, content: `${name}\n` });
  };

  return {
    appended,
    written,
    model({ messages }) {
      if (asksForSummary(JSON.stringify(messages.at(-1)))) return { content: "The work went on." };
      const steps = stepsOfTurn(messages);
      const text = "The work continues, word by word. ".repeat(1 + Math.floor(random() * 4));
      if (steps > 0 && (steps >= MAX_STEPS || random() < 0.3)) return { content: `${text}Done.` };
      const kinds = [read, read, append, append, write].toSorted(() => random() - 0.5);
      const tool_calls: SimulatedToolCall[] = kinds.slice(0, 2 + Math.floor(random() * 3)).map((make) =>
        make()
      );
      return { content: text, tool_calls };
    },
  };
}

function stepsOfTurn(messages: readonly Message[]): number {
  const start = messages.findLastIndex(({ role }) => role === "user");
  return messages.slice(start).filter(({ role }) => role === "assistant").length;
}
