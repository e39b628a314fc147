import { gateway, type HttpGateway } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import { memoryStore } from "@tare/session/sqlite";
import { loadTokenizer } from "@tare/tiktoken";
import { isSummary, planModel, type Plans } from "./model.ts";
import { makeProvider, type ProviderOptions } from "./provider.ts";
import { SHELL_TOOLS, type SimulatedAgent, SimulatedConversation } from "./simulated_agent.ts";

const GAP_MS = 10_000;

/** A change of the conversation or its environment between two prompts. */
export type SimulatedAction =
  | { readonly prompt: string; readonly stopsBefore?: number }
  | { readonly tools: number }
  | { readonly model: "usual" | "other" }
  | { readonly pauseMs: number }
  | "compact"
  | "restart";

export interface SimulatedScenario extends Pick<ProviderOptions, "caches" | "ttlMs"> {
  readonly name: string;
  readonly plans: Plans;
  readonly files: Readonly<Record<string, string | Uint8Array>>;
  readonly actions: readonly SimulatedAction[];
  readonly windowTokens?: number;
}

/** Prompt costs of a scenario in units of one uncached token. */
export interface Account {
  readonly direct: number;
  readonly through: number;
  readonly recorded: number;
  readonly claimed: number;
  /** Prompts that the agent sent for summaries, directly and through Tare. */
  readonly compactions: readonly [number, number];
}

/** Plays a scenario directly and through a gateway, and returns both bills and the gateway's account. */
export async function accountOf(agent: SimulatedAgent, scenario: SimulatedScenario): Promise<Account> {
  const direct = await play(agent, scenario, { through: false });
  const through = await play(agent, scenario, { through: true });
  if (JSON.stringify(direct.files) !== JSON.stringify(through.files)) {
    throw new Error(`The files differ: ${JSON.stringify([direct.files, through.files])}`);
  }
  const { costUnits = NaN, baselineCostUnits = NaN } = through.ledger ?? {};
  return {
    direct: direct.cost,
    through: through.cost,
    recorded: costUnits,
    claimed: baselineCostUnits - costUnits,
    compactions: [direct.compactions, through.compactions],
  };
}

export async function play(
  agent: SimulatedAgent,
  { plans, files: given, actions, windowTokens = 1_000_000, caches, ttlMs }: SimulatedScenario,
  { through }: { readonly through: boolean },
) {
  let nowMs = 1_000_000;
  const provider = await makeProvider({
    model: planModel(plans, SHELL_TOOLS),
    windowTokens,
    now: () => nowMs,
    ...(caches && { caches }),
    ...(ttlMs !== undefined && { ttlMs }),
  });
  const { count } = await loadTokenizer();
  const files = new Map(
    Object.entries(given).flatMap(([path, text]) => typeof text === "string" ? [[path, text] as const] : []),
  );
  const names = new Set(files.keys());
  const store = memoryStore();
  const errors: unknown[] = [];
  const upstream = {
    baseURL: "http://provider.example/v1",
    profile: profileNamed(agent.protocol.prices),
    windowTokens,
  };
  const open = () =>
    gateway({
      upstreams: { chat: upstream, responses: upstream, messages: upstream },
      countTokens: () => Promise.resolve(count),
      fetch: (input, init) => provider.fetch(new Request(input, init)),
      store,
      now: () => nowMs,
      onError: (error) => void errors.push(error),
    });
  let made: HttpGateway | undefined = through ? open() : undefined;
  const conversation = new SimulatedConversation(agent, {
    async send(request) {
      nowMs += GAP_MS;
      return await (made ? made.fetch(request)! : provider.fetch(request));
    },
    files,
    windowTokens,
    countTokens: count,
  });
  for (const action of actions) {
    if (action === "compact") await conversation.compact();
    else if (action === "restart") {
      if (!made) continue;
      await made.close();
      made = open();
    } else if ("tools" in action) conversation.tools = action.tools;
    else if ("model" in action) conversation.switchModel(action.model === "usual");
    else if ("pauseMs" in action) nowMs += action.pauseMs;
    else {
      const { prompt, stopsBefore = Infinity } = action;
      await conversation.turn(prompt, (call) => call === stopsBefore);
    }
  }
  await made?.close();
  const ledger = (await made?.sessions.ledger())?.planned;
  // The others are warnings, such as that the window is full.
  const failure = errors.find((error) => /^Error: Cannot/.test(String(error)));
  if (failure !== undefined) throw failure;
  return {
    cost: provider.calls.reduce((sum, { cost }) => sum + cost, 0),
    calls: provider.calls,
    files: Object.fromEntries([...files].filter(([path]) => !names.has(path))),
    compactions: provider.calls.filter(({ reply }) => reply && isSummary(reply)).length,
    sessions: made?.sessions,
    ledger,
  };
}
