import type { MadeCall, RehearsalTurn, WantedCall } from "./turn.ts";

/** A rule, which speaks once in a turn, as its calls (`made`) show; one that never knows them must not repeat itself. */
interface RehearsalRule {
  /** What the model writes in front of its calls. */
  readonly says: string | ((turn: RehearsalTurn) => string);
  /** The calls that the rule wants; none if it has nothing to go by. Those to tools that aren't offered are left out. */
  readonly wants: (turn: RehearsalTurn) => readonly WantedCall[];
  readonly made: (call: MadeCall) => boolean;
}

/** How the rehearsal model goes about one kind of question. */
export interface RehearsalPlan {
  readonly suits: (question: string) => boolean;
  /** In the order in which they are tried. */
  readonly rules: readonly RehearsalRule[];
  /** Whether the answer is made of this call's result, so that it is worth recalling. */
  readonly needs: (call: MadeCall) => boolean;
  /** What the answer is computed from. Default: the tool results of this turn. */
  readonly from?: string;
  /** Facts. */
  readonly answer: (turn: RehearsalTurn) => string;
}

/** The path that a call is about: its `path` argument, or `.` if it has none. */
export function pathOf(call: WantedCall): string {
  return typeof call.args.path === "string" ? cleanPath(call.args.path) : ".";
}

/** A path without `./` in front and `/` at the end. */
export function cleanPath(path: string): string {
  return path.replace(/^(\.\/)+/, "").replace(/\/+$/, "") || ".";
}

/** A number with its noun: `1 file`, `2 files`. */
export function withNoun(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** The rule that opens every plan: list the workspace. */
export const LIST_WORKSPACE: RehearsalRule = {
  says: "I list the workspace first.",
  wants: () => [{ tool: "list_files", args: {} }],
  made: (call) => call.tool === "list_files" && pathOf(call) === ".",
};
