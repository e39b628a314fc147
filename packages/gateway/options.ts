import type { CountTokens } from "@tare/messages";
import type { Price, Profile } from "@tare/planner";
import type { PolicyOptions } from "@tare/planner/policies";
import type { CacheKeepAlive, Keys, Store } from "@tare/session";
import type { Telemetry } from "@tare/session/telemetry";

/** A model provider. */
export interface GatewayUpstream {
  /** Base URL, such as `https://api.openai.com/v1`. */
  readonly baseURL: string;
  /** API key. Default: the client's own. */
  readonly apiKey?: string;
  /** Cache rules and prices, for all models or by name; read at each use. */
  readonly profile: Profile | ((model: string) => Profile);
  /** Returns a model's price; `undefined` if unknown. Default: the list price. */
  readonly price?: (model: string) => Price | undefined;
  /**
   * Context window in tokens: a number for all models, or a function by name, called at each use, that returns
   * `undefined` for no limit. A window reported in the provider's errors overrides a function's, and a number if it is
   * smaller. Default: the published window.
   */
  readonly windowTokens?: number | ((model: string) => number | undefined);
  /**
   * Whether a function's window is only assumed: then longer prompts are sent, for the provider to refuse. Default:
   * true.
   */
  readonly assumesWindow?: (model: string) => boolean;
  /**
   * Whether a model's tools may be deferred. Default: yes; in Messages, where the provider searches for them, known by
   * address and model.
   */
  readonly defersTools?: (model: string) => boolean;
}

/** Options of {@linkcode gateway}. */
export interface GatewayOptions {
  /** Providers by the name of their protocol. Requests of other protocols are refused. */
  readonly upstreams: Readonly<Record<string, GatewayUpstream>>;
  /** Loads the token counter. */
  readonly countTokens: () => Promise<CountTokens>;
  /** Sends requests to the upstreams. Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** Keys with budgets. Default: no budgets. */
  readonly keys?: Pick<Keys, "refusal" | "budgetRefusal" | "paid" | "reserve"> | undefined;
  /**
   * Additional paths, such as `/v1/vector_stores`, that are forwarded with the upstream's key, with those below them.
   * With a client's own key all paths under `/v1` are forwarded. Default: none.
   */
  readonly forward?: readonly string[];
  /** Policy and mechanisms of rewrites. Default: the planner with all mechanisms. */
  readonly planning?: PolicyOptions;
  /**
   * Whether requests with tools get the recall tool. Without it nothing is truncated at ingestion, since the model
   * could never read the rest. Default: true.
   */
  readonly recall?: boolean;
  /** Share of sessions, from 0 to 1, that are forwarded unchanged, as a holdout. Default: 0. */
  readonly holdout?: number;
  readonly limits?: {
    /** Largest request body in bytes. Default: 32 MiB, Anthropic's limit. */
    readonly bodyBytes?: number;
    /** Memory for sessions and requests, in bytes. Default: 96 MiB, some 45 conversations of 100,000 tokens. */
    readonly memoryBytes?: number;
  };
  /** Storage of sessions, to survive restarts and to be shared with other gateways. Default: none. */
  readonly store?: Store | undefined;
  readonly retention?: {
    /**
     * Whether content is stored: titles, hashes that identify conversations, evicted text. Otherwise only totals are.
     * Default: true.
     */
    readonly content?: boolean;
    /** Storage time after a session's last turn, in milliseconds. Default: 30 days. */
    readonly maxAgeMs?: () => number;
    /** Most bytes of sessions in the store; the least recently used are removed. Default: 1 GiB. */
    readonly maxBytes?: number;
    /**
     * Longest wait of a request for its stored session, and of an answer's end until it is stored, in milliseconds.
     * Default: 250.
     */
    readonly waitMs?: number;
  };
  /**
   * Sends cache keep-alive requests for idle conversations, within its budget or as requested, for models with known
   * prices whose cache expires after its last use. It is closed with the gateway. Default: none.
   */
  readonly keepAlive?: CacheKeepAlive;
  /** Called with failures that clients don't see. Default: does nothing. */
  readonly onError?: (error: unknown) => void;
  /** Reports model calls. Default: to the configured OpenTelemetry exporter, without content. */
  readonly telemetry?: Telemetry;
  /** The time in milliseconds since the epoch. Default: the store's clock, else `Date.now`. */
  readonly now?: () => number;
}

/** Options with defaults. */
export type SetOptions = GatewayOptions & Required<Pick<GatewayOptions, "telemetry" | "now">>;
