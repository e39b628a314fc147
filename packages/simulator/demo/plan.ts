import type { DemoTurn, MadeCall, WantedCall } from "./turn.ts";

/** A rule, applied once per turn, as recognized by its calls (`made`); a rule that never recognizes them must not repeat. */
interface DemoRule {
  readonly text: string | ((turn: DemoTurn) => string);
  /** Calls of the rule; none if it has no basis. Calls to tools that aren't offered are omitted. */
  readonly wants: (turn: DemoTurn) => readonly WantedCall[];
  readonly made: (call: MadeCall) => boolean;
}

export interface DemoPlan {
  readonly suits: (question: string) => boolean;
  readonly rules: readonly DemoRule[];
  /** Whether the answer depends on this call's result, so that it is worth recalling. */
  readonly needs: (call: MadeCall) => boolean;
  /** Source of the answer. Default: the tool results of this turn. */
  readonly from?: string;
  readonly answer: (turn: DemoTurn) => string;
}

export function pathOf(call: WantedCall): string {
  return typeof call.args.path === "string" ? cleanPath(call.args.path) : ".";
}

export function cleanPath(path: string): string {
  return path.replace(/^(\.\/)+/, "").replace(/\/+$/, "") || ".";
}

export function withNoun(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

export const LIST_WORKSPACE: DemoRule = {
  text: "I list the workspace first.",
  wants: () => [{ tool: "list_files", args: {} }],
  made: (call) => call.tool === "list_files" && pathOf(call) === ".",
};
