import type { Keys } from "@tare/session";
import type { Figures } from "@tare/session/telemetry";
import type { HttpGateway } from "@tare/gateway";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import type { RunLimits } from "@tare/loop";
import type { PolicyOptions } from "@tare/planner/policies";
import type { Heartbeat } from "./http/dispatcher.ts";
import type {
  AdvancedOptions,
  ApprovalOptions,
  ModelOptions,
  ServerLimits,
  SessionOptions,
  WorkspaceOptions,
} from "./sessions/session_options.ts";

/** What an agent server is made of. */
export interface AgentOptions extends SessionOptions {
  /** Keys of the requests, what they may do, and what they have spent. Default: every request is the owner's. */
  readonly keys?: Keys | undefined;
  /** Who may use it over HTTP, and what is served in addition to the sessions. */
  readonly http?: HttpOptions | undefined;
  /** Where webhooks may go. Default: there are none. */
  readonly webhooks?: WebhookOptions | undefined;
  /**
   * Answers for models other than the agent, and has sessions of its own kind, which it stores in this `store` or nowhere.
   * Default: the agent is the only model.
   */
  readonly gateway?: HttpGateway | undefined;
}

/** How an agent server is served over HTTP. */
export interface HttpOptions {
  /** Whether requests may come without a key, as a guest's. Default: no. */
  readonly guests?: boolean;
  /** Host names that requests may name, as URLs write them; `*` is every IP address. Default: those of loopback. */
  readonly hosts?: readonly string[];
  /** Origins whose pages may use the server, such as `https://chat.example`. Default: only its own. */
  readonly origins?: readonly string[];
  /** Most bytes that a request's headers may have together. Default: 16 KiB. */
  readonly maxHeaderBytes?: number;
  /** Largest request body in bytes. Default: 10 MiB. */
  readonly maxBodyBytes?: number;
  /** How event streams show that they are alive. Default: a comment after each 15 s of silence. */
  readonly heartbeat?: Heartbeat;
  /** What is served next to the routes, such as a page, by path, for `GET` and `HEAD`, without a key. Default: nothing. */
  readonly files?: ReadonlyMap<string, (request: Request) => Response>;
  /** Metrics that `GET /metrics` returns, and who may read them. Default: none. */
  readonly metrics?: {
    readonly figures: Figures;
    /** Whether everybody may read them; else the owner and keys for that. */
    readonly isOpen: boolean;
  };
  /** Identifies this start of the server for clients. Default: nothing does. */
  readonly instance?: string;
  /** Addresses of the gateway's providers by protocol, as clients see them. Default: they don't. */
  readonly passesOn?: {
    /** Provider of chat completions and responses. */
    readonly chat?: string;
    /** Provider of Messages. */
    readonly messages?: string;
  };
}

/** Where webhooks may go, and how they get there. */
export interface WebhookOptions {
  /**
   * Hosts that may be notified, as `host` or `host:port`: by plain HTTP too, and at any address. `*` is all others, by HTTPS
   * and at a public address.
   */
  readonly hosts: readonly string[];
  /** Looks up the addresses of a host that isn't listed by name. Default: as the system does. */
  readonly lookup?: (host: string) => Promise<readonly string[]>;
  /**
   * Connects by TLS with such a host at this address, and no other: else its name could lead elsewhere by then. Default:
   * none of these hosts can be reached.
   */
  readonly connect?: (to: {
    readonly host: string;
    readonly address: string;
    readonly port: number;
  }) => Promise<{
    readonly readable: ReadableStream<Uint8Array<ArrayBuffer>>;
    readonly writable: WritableStream<Uint8Array<ArrayBuffer>>;
    readonly close: () => void;
  }>;
  /** Calls back after so many milliseconds, until the function that it returns is called. Default: the real time. */
  readonly after?: (ms: number, work: () => void) => () => void;
  /** Returns a number from 0 to 1, for the time until a next attempt. Default: `Math.random`. */
  readonly random?: () => number;
}

const NEEDED: NeededOptions<AgentOptions> = {
  store: "object",
  tools: "array",
  models: {
    model: "function",
    "defaultModel?": "string",
    profile: ["object", "function"],
    "price?": "function",
    windowTokens: ["positive", "function"],
    "assumesWindow?": "function",
    countTokens: "function",
    "efforts?": "function",
    "effort?": "string",
    "seesPictures?": "function",
    "address?": "function",
    "notice?": "string",
  } satisfies NeededOptions<ModelOptions>,
  "instructions?": "string",
  "prompt?": {
    "policy?": "string",
    "mechanisms?": "object",
    "forget?": "string",
    "truncateTokens?": "count",
    "alwaysFull?": "array",
    "triggers?": "object",
  } satisfies NeededOptions<PolicyOptions>,
  "approvals?": {
    "rules?": "array",
    "workspace?": "string",
    "unattended?": "string",
    "answerWithinMs?": "count",
    "unknownOutcome?": "string",
  } satisfies NeededOptions<ApprovalOptions>,
  "limits?": {
    "maxSessions?": "count",
    "maxRunningTurns?": "count",
    "maxQueuedTurns?": "count",
    "turn?": {
      "maxSteps?": "positive",
      "maxOutputTokens?": "positive",
      "maxParallelTools?": "positive",
      "toolTimeoutMs?": "count",
      "idleTimeoutMs?": "count",
    } satisfies NeededOptions<RunLimits>,
  } satisfies NeededOptions<ServerLimits>,
  "workspace?": {
    "folder?": "string",
    "sandbox?": "object",
    "place?": "object",
    "checkpoints?": "object",
    "background?": "object",
  } satisfies NeededOptions<WorkspaceOptions>,
  "advanced?": {
    "toolSource?": "object",
    "delegates?": "boolean",
    "keepWarm?": ["object", "string"],
    "clock?": "object",
    "after?": "function",
  } satisfies NeededOptions<AdvancedOptions>,
  "http?": {
    "guests?": "boolean",
    "hosts?": "array",
    "origins?": "array",
    "maxHeaderBytes?": "positive",
    "maxBodyBytes?": "positive",
    "heartbeat?": "object",
    "files?": "object",
    "metrics?": "object",
    "instance?": "string",
    "passesOn?": "object",
  } satisfies NeededOptions<HttpOptions>,
  "webhooks?": {
    hosts: "array",
    "lookup?": "function",
    "connect?": "function",
    "after?": "function",
    "random?": "function",
  } satisfies NeededOptions<WebhookOptions>,
  "gateway?": "object",
  "keys?": "object",
  "telemetry?": "object",
  "onError?": "function",
};

/** Checks the options, for callers without TypeScript. @throws {TypeError} at what is unknown, missing or of a wrong kind. */
export function checkAgentOptions(options: AgentOptions): void {
  checkGiven("agentHandler()", { options }, { options: NEEDED });
}
