import { parsePlaceholder } from "@tare/prune/internal";
import { sourceText } from "../gateway/long_session.ts";

export type Entry =
  | { readonly type: "text"; readonly role: "system" | "user" | "assistant"; readonly text: string }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly args: string }
  | { readonly type: "result"; readonly id: string; readonly text: string };

export interface WantedCall {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

export interface Reply {
  readonly text?: string;
  readonly calls: readonly WantedCall[];
  /** Content for the provider to seal, as all that remains of the conversation. */
  readonly compacted?: string;
}

export interface ModelTurn {
  readonly entries: readonly Entry[];
  /** Tool names, without deferred ones. */
  readonly tools: readonly string[];
  /** Whether the provider compacts the conversation. Default: false. */
  readonly compacts?: boolean;
}

export interface AgentTools {
  readonly shell: (command: string) => WantedCall;
  /** Delegates a task to a subagent. Default: the agent has none. */
  readonly delegate?: (prompt: string) => WantedCall;
  /** Calls that each load a deferred tool. Default: none. */
  readonly discoveries?: readonly WantedCall[];
}

/**
 * Parallel parts of a step: commands, plans for subagents, and numbers of deferred tools. A command next to
 * a deferred tool carries the mark.
 */
export type Step = readonly (string | { readonly delegate: string } | { readonly discover: number })[];

export interface Plan {
  readonly steps: readonly Step[];
  /** Names of facts, written `FACT name=value` in results, that are needed after the last step. */
  readonly facts: readonly string[];
  /** Requested report file. Default: the model replies with its report. */
  readonly report?: string;
  /** Whether the model reads a lost fact's file again in place of recalling it. Default: false. */
  readonly rereads?: boolean;
  /** Text that the model writes with each step, in tokens. Default: a few words now and then. */
  readonly textTokens?: number;
}

export type Plans = Readonly<Record<string, Plan>>;

/**
 * Returns a deterministic model that follows the newest plan named in its prompt (`plan:NAME`). It reads its
 * step from the mark (`# NAME.7`) of its own calls, recalls evicted results if it has a tool for that, and
 * reports missing facts as lost.
 */
export function planModel(plans: Plans, tools: AgentTools): (turn: ModelTurn) => Reply {
  return (turn) => {
    const { entries } = turn;
    if (turn.compacts) return { calls: [], compacted: summaryOf(entries, plans) };
    const shell = tools.shell("").name;
    const request = entries.findLast((item) => item.type === "text" && item.role === "user");
    const wording = entries.map((item) => item.type === "text" && item.role === "system" ? item.text : "")
      .join(
        "\n",
      );
    const latest = request?.type === "text" ? request.text : "";
    const name = /\bplan:([A-Z]+)/g;
    if (!turn.tools.includes(shell)) {
      if (TITLE.test(wording) || TITLE.test(latest)) return say("A title");
      return say(summaryOf(entries, plans));
    }
    if (isSummaryRequest(entries)) return say(summaryOf(entries, plans));
    const content = entries.flatMap((item) =>
      item.type === "text" && item.role !== "system" ? [item.text] : []
    );
    const planName = [...content.join("\n").matchAll(name)].at(-1)?.[1];
    const plan = planName === undefined ? undefined : plans[planName];
    if (!plan || planName === undefined) return say("Hello.");
    const step = reached(entries, planName) + 1;
    const calls = plan.steps[step];
    const lookup = calls && wantedLookup(calls, turn, tools);
    if (lookup) return { calls: [lookup] };
    if (calls) {
      const thought = plan.textTokens ? sourceText(`${planName}.${step}`, plan.textTokens) : "";
      const text = [step % 4 === 0 ? `Step ${step}: looking further.` : "", thought].filter(Boolean).join(
        "\n",
      );
      return {
        ...(text !== "" && { text }),
        calls: calls.map((call) =>
          typeof call === "string"
            ? tools.shell(`${call} # ${planName}.${step}`)
            : "discover" in call
            ? reach(tools.discoveries![call.discover]!, turn)
            : tools.delegate!(`Follow plan:${call.delegate} (# ${planName}.${step}) and report the result.`)
        ),
      };
    }
    const found: string[] = [];
    for (const fact of plan.facts) {
      const value = valueOf(fact, entries);
      if (value === undefined && plan.rereads) return { calls: [tools.shell(`cat ${fact}.txt`)] };
      const recall = value === undefined && turn.tools.includes("recall")
        ? wantedRecall(fact, entries)
        : undefined;
      if (recall) return { calls: [{ name: "recall", args: recall }] };
      found.push(`${fact}=${value ?? "lost"}`);
    }
    if (plan.report === undefined || step > plan.steps.length) {
      const facts = found.map((fact) => `FACT ${fact}`).join(", ");
      return say(`Done with ${planName}.${plan.report === undefined && found.length > 0 ? ` ${facts}` : ""}`);
    }
    const ending = RULE.exec(textOf(entries))?.[1] ?? "the rule is lost";
    const text = [`Report of ${planName}`, ...found, ending].join("\n");
    return { calls: [tools.shell(`printf '%s\\n' '${text}' > ${plan.report} # ${planName}.${step}`)] };
  };
}

/** Returns the call that looks for a step's tool, if it isn't visible and there is a tool for that. */
function wantedLookup(
  calls: Step,
  { entries, tools: offered }: ModelTurn,
  { discoveries = [] }: AgentTools,
): WantedCall | undefined {
  const wanted = calls.flatMap((call) =>
    typeof call !== "string" && "discover" in call ? [discoveries[call.discover]!.name] : []
  );
  const isFound = (name: string) =>
    offered.includes(name) ||
    entries.some((item) => item.type === "result" && item.text.includes(`{"name":"${name}",`));
  const missing = wanted.filter((name) => !isFound(name));
  return offered.includes("find_tools") && missing.length > 0
    ? { name: "find_tools", args: { query: missing.join(" ") } }
    : undefined;
}

function reach({ name, args }: WantedCall, { tools }: ModelTurn): WantedCall {
  return tools.includes(name) || !tools.includes("call_tool")
    ? { name, args }
    : { name: "call_tool", args: { name, arguments: args } };
}

const SUMMARY = /summar|compact|handoff/i;
const TITLE = /\btitle\b/i;

const RULE = /RULE: every report ends with the line "([\w ]+)"/;

function say(text: string): Reply {
  return { text, calls: [] };
}

function textOf(entries: readonly Entry[]): string {
  return entries.map((item) => item.type === "call" ? item.args : item.text).join("\n");
}

function isSummaryRequest(entries: readonly Entry[]): boolean {
  const last = entries.findLast((item) => item.type !== "text" || item.role !== "system");
  return last?.type === "text" && last.role === "user" && SUMMARY.test(last.text) &&
    !/\bplan:/.test(last.text);
}

function reached(entries: readonly Entry[], plan: string): number {
  // A summary may be all that is left of the calls.
  const progress = textOf(entries).matchAll(new RegExp(`# ${plan}\\.(\\d+)`, "g"));
  return Math.max(-1, ...[...progress].map(([, step]) => Number(step)));
}

function valueOf(fact: string, entries: readonly Entry[]): string | undefined {
  return new RegExp(`FACT ${fact}=(\\w+)`).exec(textOf(entries))?.[1];
}

/**
 * Returns the next recall for a fact: of the call that read it, then of old turns, then a search in
 * everything evicted.
 */
function wantedRecall(
  fact: string,
  entries: readonly Entry[],
): Readonly<Record<string, unknown>> | undefined {
  const reads = entries.flatMap((item) =>
    item.type === "call" && item.args.includes(`${fact}.txt`) ? [item.id] : []
  );
  const lines = entries.flatMap((item) =>
    item.type === "result" && reads.includes(item.id) || item.type === "text" && item.role !== "system"
      ? item.text.split("\n")
      : []
  );
  const refs = lines.flatMap((line) => parsePlaceholder(line)?.ref ?? []);
  // A recalled result that was evicted again is recalled again.
  const left = new Set(
    entries.flatMap((item) => item.type === "result" && parsePlaceholder(item.text) ? [item.id] : []),
  );
  const calls = entries.flatMap((item) =>
    item.type === "call" && item.name === "recall" && !left.has(item.id) ? [item.args] : []
  );
  const find = `FACT ${fact}`;
  const asks = (args: string, wanted: { readonly find: string; readonly ref?: string }) => {
    const { ref, find: text } = JSON.parse(args);
    return ref === wanted.ref && text === find;
  };
  return [...refs.map((ref) => ({ ref, find })), { find }]
    .find((wanted) => !calls.some((args) => asks(args, wanted)));
}

export function isSummary({ text, compacted }: Reply): boolean {
  return compacted !== undefined || text?.startsWith("<summary>") === true;
}

function summaryOf(entries: readonly Entry[], plans: Plans): string {
  const text = textOf(entries);
  const plan = [...text.matchAll(/\bplan:([A-Z]+)/g)].at(-1)?.[1];
  const progress = Object.keys(plans).map((name) => [name, reached(entries, name)] as const)
    .filter(([, step]) => step >= 0).map(([name, step]) => `# ${name}.${step}`);
  const facts = [...new Set([...text.matchAll(/FACT \w+=\w+/g)].map(([fact]) => fact))];
  const summary = `The user wants plan:${plan}. Reached: ${progress.join(", ")}. ${facts.join(", ")}.`;
  // A client that requests another form accepts nothing else.
  const form = /<(state_snapshot)>/.exec(text)?.[1];
  return `<summary>${form ? `<${form}>${summary}</${form}>` : summary}</summary>`;
}
