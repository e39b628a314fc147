import type { Message } from "@tare/messages";
import { type SimulatedModel, type SimulatedReply, type SimulatedToolCall, toolCall } from "@tare/simulator";
import { SCRIPT } from "../../gateway/long_session.ts";

/** File of the workspace that commands append to: a line for each call that runs. */
export const LOG = "log.txt";

/** File of the workspace that is read. */
export const NOTES = "notes.txt";

/** What stands in the first text of a conversation of the gateway, by which the model knows that it follows the script. */
export const SCRIPTED = "Scripted";

/** What stands in the first text of a session whose model gives its work to a helper. */
export const DELEGATING = "Delegating";

/** What its helper is told to do. */
export const TASK = "Write to the log, again and again.";

/** What stands in the first text of a session whose model writes a program. */
export const PROGRAMMING = "Programming";

/** File of the workspace that the commands of {@linkcode WAIT} wait for. */
export const GO = "go";

/** Waits until a test lets it go on, or nobody is there any more. */
const WAIT = `while [ -e ${LOG} ] && ! [ -e ${GO} ]; do sleep 0.05; done`;

/** Commands, the last of which waits, and files between them. */
const PROGRAM = `
  const run = (n) =>
    tools.shell({ command: "echo program-" + n + " $PPID $(date +%s%N) >> ${LOG}" + (n === 3 ? "; ${WAIT}" : "") });
  const write = (path) => tools.write_file({ path, content: path + "\\n" }).then(() => path);
  await run(1);
  const both = await Promise.all([write("left.txt"), write("right.txt")]);
  await run(2);
  const last = await write("last.txt");
  const end = await run(3).then(() => "known", () => "unknown");
  return [...both, last, end].join(" ");
`;

/** Steps in which it does, and that which waits. */
const HELPER_STEPS = 18;
const HELPER_WAITS_AT = 2;

/** Steps with tool calls before a turn's answer. */
const MAX_STEPS = 3;

/** A call that ran, as it stands in {@linkcode LOG}. */
export interface Run {
  /** Name of the call: no other one has it. */
  readonly token: string;
  /** Process id of the server that ran it. */
  readonly pid: number;
  /** When it began, in milliseconds since the epoch. */
  readonly atMs: number;
}

/** The calls that ran, as the log tells. */
export function readRuns(log: string): readonly Run[] {
  return log.split("\n").slice(0, -1).map((line) => {
    const [token = "", pid, nanoseconds] = line.split(" ");
    return { token, pid: Number(pid), atMs: Number(nanoseconds) / 1e6 };
  });
}

/** Names of calls in a text. */
export function tokensIn(text: string): readonly string[] {
  return text.match(/token-\d+/g) ?? [];
}

/**
 * The agent's turns have one to three steps of text and calls, then an answer: calls that read, and commands that take a while
 * and say in the {@linkcode LOG} that they ran, and in which server. Conversations of the gateway follow a script.
 * A session that delegates has a helper in each turn, which runs commands; one that programs has a program run them. Of
 * both one command waits until it is let go.
 */
export function clusterModel(random: () => number): SimulatedModel {
  let made = 0;
  const append = (waits = false): SimulatedToolCall => {
    const token = `token-${++made}`;
    const pause = (random() * 0.1).toFixed(3);
    return toolCall("shell", {
      command: `echo ${token} $PPID $(date +%s%N) >> ${LOG}; ${
        waits ? WAIT : `sleep ${pause}`
      }; echo ${token}`,
    });
  };
  const read = (): SimulatedToolCall =>
    toolCall("read_file", { path: NOTES, start_line: 1 + Math.floor(random() * 100) });
  return ({ messages }): SimulatedReply => {
    const steps = stepsIn(messages);
    const first = JSON.stringify(messages[0]?.content);
    if (first.includes(SCRIPTED)) {
      return SCRIPT[steps.all] ?? { content: `That was all: ${steps.all}.` };
    }
    if (first.includes(DELEGATING)) {
      const said = messages.findLast(({ role }) => role === "user")?.content;
      if (!JSON.stringify(said).includes(TASK)) {
        return steps.ofTurn > 0
          ? { content: "The helper is done." }
          : { content: null, tool_calls: [toolCall("delegate", { task: TASK })] };
      }
      return steps.ofTurn < HELPER_STEPS
        ? { content: null, tool_calls: [append(steps.ofTurn === HELPER_WAITS_AT)] }
        : { content: "It is written." };
    }
    if (first.includes(PROGRAMMING)) {
      return steps.ofTurn > 0
        ? { content: "The program is done." }
        : { content: null, tool_calls: [toolCall("run_program", { code: PROGRAM })] };
    }
    const text = "The work goes on, word by word. ".repeat(1 + Math.floor(random() * 4));
    if (steps.ofTurn > 0 && (steps.ofTurn >= MAX_STEPS || random() < 0.3)) return { content: `${text}Done.` };
    const kinds = [read, () => append(), () => append()].toSorted(() => random() - 0.5);
    const tool_calls = kinds.slice(0, 1 + Math.floor(random() * 3)).map((make) => make());
    return { content: text, tool_calls };
  };
}

/** How often the model has replied. */
function stepsIn(messages: readonly Message[]): { readonly all: number; readonly ofTurn: number } {
  const count = (some: readonly Message[]) => some.filter(({ role }) => role === "assistant").length;
  const start = messages.findLastIndex(({ role }) => role === "user");
  return { all: count(messages), ofTurn: count(messages.slice(start)) };
}
