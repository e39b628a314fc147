import { groupTurns } from "@tare/context";
import { contentText, countRequestTokens, type CountTokens, type Message, type Usage } from "@tare/messages";
import { type History, plannerSession, type Profile, type PromptSessionOptions } from "@tare/planner";
import { WINDOW_SHARE } from "@tare/planner/internal";
import { memoryArchive } from "@tare/prune";
import type { ClientTrial, Warmer } from "../keep_alive/warmer.ts";
import type { Recording } from "./recording.ts";

export interface PolicyCall extends History {
  readonly nowMs: number;
}

export interface PolicyView extends History {
  /** A request by the policy before the call, such as for a summary. It is paid like any other. */
  readonly aside?: History & { readonly outputTokens: number };
}

export interface CallPolicy {
  view(call: PolicyCall): PolicyView | Promise<PolicyView>;
  sent?(usage: Usage): void;
  /** Cache keep-alive during pauses. Default: none. */
  readonly warmer?: Pick<Warmer, "next" | "recordKeepAlive">;
}

export interface CallPolicyOptions {
  readonly profile: Profile;
  readonly windowTokens: number;
  readonly countTokens: CountTokens;
  readonly recording: Recording;
}

export type MakePolicy = (options: CallPolicyOptions) => CallPolicy | Promise<CallPolicy>;

export function resend(): CallPolicy {
  return { view: ({ messages, tools }) => ({ messages, tools }) };
}

export interface PlannerOptions extends Partial<PromptSessionOptions> {
  /** Whether the model can recall evicted content. Default: true, also if `--bare` omits the tool from the prompt. */
  readonly recall?: boolean;
  /** Keep-alive, and what extended keep-alive requests reveal about the provider. Default: no keep-alive. */
  readonly keepAlive?: { readonly trial?: ClientTrial | undefined };
}

/** Returns the policy of a prompt session with the defaults of gateway, server and adapters, overridden by `options`. */
export function plannerPolicy(
  { profile, windowTokens, countTokens }: CallPolicyOptions,
  { recall = true, keepAlive, ...options }: PlannerOptions = {},
): CallPolicy {
  const session = plannerSession({
    profile,
    windowTokens,
    countTokens,
    archive: memoryArchive(),
    ...options,
  });
  return {
    view: (call) => session.view(call, { nowMs: call.nowMs, recall }),
    sent: (usage) => {
      const entry = session.sent(usage);
      keepAlive?.trial?.learn(entry?.keepAlive?.upgrade);
    },
    ...(keepAlive && {
      warmer: {
        next: (idle) =>
          session.nextKeepAlive({ ...idle, ...(keepAlive.trial && { trial: keepAlive.trial.known }) }),
        recordKeepAlive: (ping) => {
          const { upgrade } = session.recordKeepAlive(ping);
          keepAlive.trial?.learn(upgrade);
        },
      },
    }),
  };
}

const SUMMARY_TOKENS = 1_000;

/** Prompt of a summary request: the conversation as last sent, or a transcript in a new conversation. */
export type SummaryCall = "cached" | "cold";

/** Returns a client's own compaction: near the window ({@linkcode WINDOW_SHARE}) a summary replaces all but the last step. */
export function compaction(summaryCall: SummaryCall): MakePolicy {
  return ({ countTokens, windowTokens }: CallPolicyOptions) => {
    let summaries: Message[] = [];
    let start = 0;
    let sent: readonly Message[] = [];
    let prefixTokens = 0;
    let counted = 0;
    return {
      view({ messages, tools }) {
        const view = [
          ...messages.slice(0, start).filter(isInstruction),
          ...summaries,
          ...messages.slice(start),
        ];
        counted = countRequestTokens({ messages: view, tools }, countTokens);
        if (counted + prefixTokens <= WINDOW_SHARE * windowTokens) {
          sent = view;
          return { messages: view, tools };
        }
        const summarized = summaryCall === "cached"
          ? { messages: [...sent, INSTRUCTION], tools }
          : { messages: [transcript(view)], tools: [] };
        start = startOfRest(messages);
        summaries = [summary(countTokens), ...question(messages, start)];
        const rest = [
          ...messages.slice(0, start).filter(isInstruction),
          ...summaries,
          ...messages.slice(start),
        ];
        counted = countRequestTokens({ messages: rest, tools }, countTokens);
        sent = rest;
        return { messages: rest, tools, aside: { ...summarized, outputTokens: SUMMARY_TOKENS } };
      },
      sent({ promptTokens }) {
        prefixTokens = promptTokens - counted;
      },
    };
  };
}

const INSTRUCTION: Message = {
  role: "user",
  content:
    "Summarize this conversation so that the work can continue from the summary alone. Answer with text only.",
};

function isInstruction({ role }: Message): boolean {
  return role === "system" || role === "developer";
}

function transcript(messages: readonly Message[]): Message {
  return { role: "user", content: messages.map((message) => JSON.stringify(message)).join("\n") };
}

function startOfRest(messages: readonly Message[]): number {
  const last = messages.length - 1;
  return messages[last]?.role === "tool" ? messages.findLastIndex(({ role }) => role === "assistant") : last;
}

function question(messages: readonly Message[], start: number): Message[] {
  const turn = groupTurns(messages).at(-1)?.start ?? 0;
  return messages.slice(turn, start).filter(({ role }) => role === "user");
}

function summary(countTokens: CountTokens): Message {
  let text = "Summary:";
  while (countTokens(text) < SUMMARY_TOKENS) text += " …".repeat(100);
  return { role: "user", content: contentText(text) };
}
