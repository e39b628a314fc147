import type { AgentEntry } from "../../packages/cli/agents/agents.ts";
import type { AgentTools } from "./model.ts";
import type { Command, Ended } from "./program.ts";

/** What an agent is configured with. */
export interface AgentPlace {
  /** A folder of its own, where it keeps everything. */
  readonly home: string;
  /** The folder of the conversation. */
  readonly workspace: string;
  /** Where whom it asks listens: an address without a path. */
  readonly url: string;
  /** Longest prompt that it may send, in tokens; it compacts before. */
  readonly windowTokens: number;
}

/** How a prompt is given. */
export interface PromptOptions {
  /** Whether it begins a conversation. */
  readonly isFirst: boolean;
  /** What {@linkcode Agent.configure} was given. */
  readonly home: string;
  /** Its conversation, for an agent that wants them named. Default: the only one. */
  readonly conversation?: string;
  /** The path of a picture that is shown with it. Default: none. */
  readonly image?: string;
  /** The model that it is for. Default: the one of the configuration. */
  readonly model?: string;
}

/** What a scenario may want that not every agent has. */
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

/** A program that people use as their agent: how it is configured and started, and nothing else. */
export interface Agent {
  readonly name: string;
  readonly tools: AgentTools;
  /** The file in which people give it rules. */
  readonly rulesFile: "AGENTS.md" | "CLAUDE.md";
  /** What keeps it from asking anybody but its provider. */
  readonly quiet: Readonly<Record<string, string>>;
  /** Whom it asks it is told as `tare run` tells it. */
  readonly entry: Pick<AgentEntry, "told" | "file" | "takes">;
  /** Writes its configuration, and gives the environment that it wants beside {@linkcode Agent.quiet}. */
  readonly configure: (place: AgentPlace) => Promise<Readonly<Record<string, string>>>;
  /** One prompt, without anybody to answer questions; the next ones go on with the same conversation. */
  readonly prompt: (text: string, options: PromptOptions) => Command;
  /** Makes a new home ready, where two first starts at the same time break each other. Default: each start does. */
  readonly prepare?: Command;
  /** Several prompts in one process, each given when the one before is done. */
  readonly converse?: (texts: readonly string[], options: Pick<AgentPlace, "home" | "workspace">) => Command;
  /** Has it compact the conversation, as its user does by command. */
  readonly compact?: (options: {
    /** What {@linkcode Agent.configure} was given. */
    readonly home: string;
    /** The folder of the conversation. */
    readonly workspace: string;
    readonly run: (command: Command) => Promise<Ended>;
  }) => Promise<Ended>;
  /** Tokens of a window that it keeps free, more than what a scenario leaves it. Default: none. */
  readonly keepsFreeTokens?: number;
  /** Whether it compacts by its own count of its history, whatever it is told that a prompt took. Default: no. */
  readonly countsItself?: boolean;
  /** What it can't do, and why. */
  readonly lacks: Readonly<Partial<Record<Ability, string>>>;
}
