import type { CountTokens } from "@tare/messages";
import type { Mechanisms, Profile } from "@tare/planner";
import type { UpstreamOptions } from "./upstream.ts";
import type { WireBody } from "@tare/wire";

/** How requests for other models than the agent are passed on. */
export interface GatewayOptions extends UpstreamOptions {
  /** Whether requests with tools get the recall tool too. Default: true. */
  readonly recall?: boolean;
  /** Share of sessions, from 0 to 1, that are left as they are, to compare with. Default: 0. */
  readonly control?: number;
}

/** What a gateway plans with. */
export interface GatewaySettings {
  /** The provider's cache rules and prices. */
  readonly profile: Profile;
  /** The models' context window in tokens. */
  readonly windowTokens: number;
  /** Which mechanisms work. */
  readonly mechanisms: Mechanisms;
  /** Gives the token counter, once it is loaded. */
  readonly countTokens: () => Promise<CountTokens>;
  /** Whether requests carry this server's own token, which isn't the upstream's business. */
  readonly guarded: boolean;
  /** Told of what went wrong and of what clients don't get to read. */
  readonly onError: (error: unknown) => void;
  /** The time in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
}

/** A request for the upstream. */
export interface GatewayCall {
  /** The request; its body has been read. */
  readonly request: Request;
  /** The body. */
  readonly body: WireBody;
}
