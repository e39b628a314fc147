/**
 * Options of all groups by their own names. Contains no tests.
 *
 * @module
 */
import type {
  AdvancedOptions,
  AgentOptions,
  HttpOptions,
  ModelOptions,
  ServerLimits,
  WorkspaceOptions,
} from "@tare/server";

type Prompt = NonNullable<AgentOptions["prompt"]>;
type Groups = {
  readonly models: Partial<ModelOptions>;
  readonly prompt: Prompt;
  readonly limits: ServerLimits;
  readonly workspace: WorkspaceOptions;
  readonly http: HttpOptions;
  readonly advanced: AdvancedOptions;
};

/** Options of an agent server, without groups. */
export interface FlatOptions
  extends
    Partial<Omit<AgentOptions, keyof Groups>>,
    Partial<ModelOptions>,
    Prompt,
    ServerLimits,
    WorkspaceOptions,
    HttpOptions,
    AdvancedOptions {}

const NAMES: { readonly [Group in keyof Groups]: Readonly<Record<keyof Groups[Group], true>> } = {
  models: {
    ...{
      model: true,
      defaultModel: true,
      profile: true,
      price: true,
      windowTokens: true,
      assumesWindow: true,
    },
    ...{
      countTokens: true,
      list: true,
      efforts: true,
      effort: true,
      supportsImages: true,
      address: true,
      notice: true,
    },
  },
  prompt: {
    ...{
      policy: true,
      evict: true,
      mechanisms: true,
      forget: true,
      truncateTokens: true,
      alwaysFull: true,
      triggers: true,
    },
  },
  limits: {
    ...{ maxSessions: true, maxRunningTurns: true, maxQueuedTurns: true, turn: true },
  },
  workspace: { folder: true, sandbox: true, place: true, checkpoints: true, background: true },
  http: {
    ...{ guests: true, hosts: true, origins: true, maxHeaderBytes: true, maxBodyBytes: true },
    ...{ heartbeat: true, files: true, metrics: true, instance: true, forwardsTo: true },
  },
  advanced: { toolSource: true, delegates: true, keepAlive: true, clock: true, after: true },
};

/** Returns these options in their groups. */
export function grouped(options: FlatOptions): Partial<AgentOptions> {
  const groups: Record<string, Record<string, unknown>> = {};
  const others = Object.entries(options).filter(([name, value]) => {
    const group = Object.entries(NAMES).find(([, names]) => Object.hasOwn(names, name))?.[0];
    if (group !== undefined) (groups[group] ??= {})[name] = value;
    return group === undefined;
  });
  return { ...Object.fromEntries(others), ...groups };
}
