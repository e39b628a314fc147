import type { CountTokens } from "@tare/messages";
import type { Price, Profile } from "@tare/planner";
import type { PolicyOptions } from "@tare/planner/policies";
import type { Keys, Store, Warmth } from "@tare/session";
import type { Telemetry } from "@tare/session/telemetry";

/** A provider that requests are sent to. */
export interface GatewayUpstream {
  /** Its address, such as `https://api.openai.com/v1`. */
  readonly baseURL: string;
  /** Its key. Default: that of each client. */
  readonly apiKey?: string;
  /** Its cache rules and prices, for all its models or for each by name; read whenever they count. */
  readonly profile: Profile | ((model: string) => Profile);
  /** Returns what a model costs in money; undefined if its price is unknown. Default: the list price, by its name. */
  readonly price?: (model: string) => Price | undefined;
  /**
   * Its models' context window in tokens. A number holds for all of them, unless an error of the provider reports a
   * smaller one. A function is called for each by name whenever it counts, and such an error outranks it; undefined is no
   * limit. Default: the window that is published, by the model's name.
   */
  readonly windowTokens?: number | ((model: string) => number | undefined);
  /**
   * Whether the window that a function returned is only assumed: then what doesn't fit is sent, for the provider to
   * refuse. A number, or a window that an error reported, isn't assumed. Default: it is.
   */
  readonly assumesWindow?: (model: string) => boolean;
  /**
   * Whether a model's tools may be deferred, since it finds them by the provider's own search. Default: at addresses, and
   * of models, for which that is known.
   */
  readonly searchesTools?: (model: string) => boolean;
}

/** Where a gateway sends requests, and what it plans with. */
export interface GatewayOptions {
  /** The provider of each protocol that requests are sent to, by the protocol's name. A protocol without one isn't answered. */
  readonly upstreams: Readonly<Record<string, GatewayUpstream>>;
  /** Returns the token counter, once it is loaded. */
  readonly countTokens: () => Promise<CountTokens>;
  /** Fetches from the upstreams. Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** The keys whose budgets pay for requests. Default: no budgets. */
  readonly keys?: Pick<Keys, "refusal" | "spent" | "paid" | "reserve"> | undefined;
  /**
   * Paths besides those that models are used with, such as `/v1/vector_stores`, that go to a provider with the key of its
   * upstream, and what is below them. With a client's own key anything under `/v1` goes. Default: none.
   */
  readonly forward?: readonly string[];
  /** Decides when a prompt is rewritten, and by which mechanisms. Default: by the planner, with all of them. */
  readonly planning?: PolicyOptions;
  /**
   * Whether requests with tools get the recall tool too. Default: true. Without it nothing is truncated at ingestion: the
   * model would never see the middle of a tool result.
   */
  readonly recall?: boolean;
  /** Share of sessions, from 0 to 1, that are forwarded unchanged, as a holdout. Default: 0. */
  readonly control?: number;
  /** Most bytes that are read and remembered. */
  readonly limits?: {
    /** Largest request body in bytes: prompts may hold images and recordings. Default: 32 MiB, the most that Anthropic takes. */
    readonly bodyBytes?: number;
    /** Memory for sessions and requests, in bytes. Default: 96 MiB, some 45 conversations of 100,000 tokens; others are read from the store. */
    readonly memoryBytes?: number;
  };
  /**
   * Where sessions are stored, so that they survive the process, and other gateways on the same store continue them.
   * Default: nowhere.
   */
  readonly store?: Store | undefined;
  /** What is stored there, and for how long. */
  readonly retention?: {
    /**
     * Whether content is stored: titles, hashes by which a conversation is found again, what was evicted from its prompt.
     * Otherwise only the totals of sessions and their calls are. Default: true.
     */
    readonly content?: boolean;
    /** How long a session is stored after its last turn, in milliseconds. Default: 30 days. */
    readonly maxAgeMs?: () => number;
    /** Most bytes that sessions take in the store; those used longest ago are removed. Default: 1 GiB. */
    readonly maxBytes?: number;
    /**
     * How long a request waits for the stored state of its session, and the end of an answer until the state is stored, in
     * milliseconds. Default: 250.
     */
    readonly waitMs?: number;
  };
  /**
   * Sends cache keep-alive requests for idle conversations, within its budget or as requested, for providers whose cache
   * lives from use to use and models whose price is known. It is closed with the gateway. Default: none are sent.
   */
  readonly warmth?: Warmth;
  /** Called with failures that clients don't see. Default: does nothing. */
  readonly onError?: (error: unknown) => void;
  /** Reports model calls. Default: to the OpenTelemetry exporter that is set up, without content. */
  readonly telemetry?: Telemetry;
  /** The time in milliseconds since the epoch. Default: by the clock of the store, else `Date.now`. */
  readonly now?: () => number;
}

/** Options whose defaults are set. */
export type SetOptions = GatewayOptions & Required<Pick<GatewayOptions, "telemetry" | "now">>;
