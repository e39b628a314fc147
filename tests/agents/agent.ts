import type { AgentEntry } from "../../packages/cli/agents/agents.ts";
import type { AgentTools } from "./model.ts";
import type { Command, Ended } from "./program.ts";

export interface AgentPlace {
  readonly home: string;
  readonly workspace: string;
  /** Address of the provider or gateway, without a path. */
  readonly url: string;
  /** Longest prompt that the agent may send, in tokens; it compacts before. */
  readonly windowTokens: number;
}

export interface PromptOptions {
  /** Whether the prompt begins a conversation. */
  readonly isFirst: boolean;
  readonly home: string;
  /** Conversation, for an agent that needs its id. Default: the only one. */
  readonly conversation?: string;
  /** Path of an image to attach. Default: none. */
  readonly image?: string;
  readonly model?: string;
}

export type Ability =
  | "resume"
  | "converse"
  | "compact"
  | "limit"
  | "interrupt"
  | "retries"
  | "images"
  | "parallel"
  | "delegate"
  | "discoveries";

/** Driver of an agent program: its configuration and its command lines. */
export interface Agent {
  readonly name: string;
  readonly tools: AgentTools;
  readonly rulesFile: "AGENTS.md" | "CLAUDE.md";
  /** Environment that keeps the agent from connecting to anything but its provider. */
  readonly quiet: Readonly<Record<string, string>>;
  /** Settings by which `tare run` configures the agent's provider. */
  readonly entry: Pick<AgentEntry, "settingsFor" | "file" | "takes">;
  /**
   * Writes the configuration. Returns the environment that the agent needs in addition to {@linkcode
   * Agent.quiet}.
   */
  readonly configure: (place: AgentPlace) => Promise<Readonly<Record<string, string>>>;
  /** Command for one non-interactive prompt; later prompts continue the same conversation. */
  readonly prompt: (text: string, options: PromptOptions) => Command;
  /** Command that prepares a new home, for agents whose concurrent first starts conflict. Default: none. */
  readonly prepare?: Command;
  /** Command for several prompts in one process, each sent when the one before is done. */
  readonly converse?: (texts: readonly string[], options: Pick<AgentPlace, "home" | "workspace">) => Command;
  readonly compact?: (options: {
    readonly home: string;
    readonly workspace: string;
    readonly run: (command: Command) => Promise<Ended>;
  }) => Promise<Ended>;
  /** Tokens of the window that the agent keeps free in addition to the scenario's. Default: 0. */
  readonly keepsFreeTokens?: number;
  /**
   * Whether the agent compacts by its own count of its history and ignores the reported usage. Default:
   * false.
   */
  readonly countsItself?: boolean;
  readonly lacks: Readonly<Partial<Record<Ability, string>>>;
}
