import type { Message } from "@tare/messages";
import { type SimulatedModel, type SimulatedReply, type SimulatedToolCall, toolCall } from "@tare/simulator";
import { SCRIPT } from "../../gateway/long_session.ts";

/** File of the workspace that commands append to: a line for each call that runs. */
export const LOG = "log.txt";

export const NOTES = "notes.txt";

/** Marker in the first text of a gateway conversation that follows the script. */
export const SCRIPTED = "Scripted";

/** Marker in the first text of a session whose model delegates to a subagent. */
export const DELEGATING = "Delegating";

export const TASK = "Write to the log, again and again.";

/** Marker in the first text of a session whose model writes a program. */
export const PROGRAMMING = "Programming";

/** File of the workspace that the commands of {@linkcode WAIT} wait for. */
export const GO = "go";

const WAIT = `while [ -e ${LOG} ] && ! [ -e ${GO} ]; do sleep 0.05; done`;

/** Program with commands, the last of which waits, and files between them. */
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

const HELPER_STEPS = 18;
const HELPER_WAITS_AT = 2;

const MAX_STEPS = 3;

/** Run of a call, as recorded in {@linkcode LOG}. */
export interface Run {
  readonly token: string;
  readonly pid: number;
  readonly atMs: number;
}

export function readRuns(log: string): readonly Run[] {
  return log.split("\n").slice(0, -1).map((line) => {
    const [token = "", pid, nanoseconds] = line.split(" ");
    return { token, pid: Number(pid), atMs: Number(nanoseconds) / 1e6 };
  });
}

export function tokensIn(text: string): readonly string[] {
  return text.match(/token-\d+/g) ?? [];
}

/**
 * Returns a model with one to three steps per turn, then an answer: reads, and slow commands that record run
 * and server in {@linkcode LOG}. Delegating sessions run commands in a subagent, programming ones in a
 * program; both have a command that waits.
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
      const content = messages.findLast(({ role }) => role === "user")?.content;
      if (!JSON.stringify(content).includes(TASK)) {
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
    const text = "The work continues, word by word. ".repeat(1 + Math.floor(random() * 4));
    if (steps.ofTurn > 0 && (steps.ofTurn >= MAX_STEPS || random() < 0.3)) return { content: `${text}Done.` };
    const kinds = [read, () => append(), () => append()].toSorted(() => random() - 0.5);
    const tool_calls = kinds.slice(0, 1 + Math.floor(random() * 3)).map((make) => make());
    return { content: text, tool_calls };
  };
}

function stepsIn(messages: readonly Message[]): { readonly all: number; readonly ofTurn: number } {
  const count = (some: readonly Message[]) => some.filter(({ role }) => role === "assistant").length;
  const start = messages.findLastIndex(({ role }) => role === "user");
  return { all: count(messages), ofTurn: count(messages.slice(start)) };
}
