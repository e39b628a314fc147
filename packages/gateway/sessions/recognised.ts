import type { ForkableSession, PromptSessionOptions } from "@tare/planner";
import type { WireItem } from "@tare/wire";
import type { GatewaySession, SessionBasis } from "./session.ts";

/** What a session is recognised by. */
export interface Recognised {
  /** Keeps apart histories that must never meet: clients, protocols. */
  readonly scope: string;
  /** Who asks: its conversations may go on under another scope. Default: they may not. */
  readonly client?: string;
  /** Whether the client itself keeps its conversations apart, so that a scope holds one. Default: no. */
  readonly isKeyed?: boolean;
  /** The client's name for the session. Default: it is recognised by content. */
  readonly name?: string | undefined;
  /** Name of the protocol. Default: none. */
  readonly protocol?: string;
  readonly items: readonly WireItem[];
  /** Whether its model may call tools. Default: no. */
  readonly hasTools?: boolean;
  /** What the prompts of a new session are planned by. */
  readonly basis: SessionBasis;
  /** Decides what leaves the prompts of a session: of a new one, or of one that goes on from what was stored. */
  readonly prompts: (
    session: Pick<GatewaySession, "archive" | "control" | "basis">,
    stored?: Pick<PromptSessionOptions, "state" | "lookedAt">,
  ) => ForkableSession;
}

/** A session that a request is about, and how many items at the start of their histories are the same. */
export interface About {
  readonly session: GatewaySession;
  readonly shared: number;
}
