import { parsePlaceholder } from "@tare/prune/internal";
import { sourceText } from "../gateway/long_session.ts";

/** One thing that stands in a prompt, whatever its protocol calls it. */
export type Said =
  | { readonly type: "text"; readonly role: "system" | "user" | "assistant"; readonly text: string }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly args: string }
  | { readonly type: "result"; readonly id: string; readonly text: string };

/** A call that the model wants. */
export interface WantedCall {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** What the model replies. */
export interface Reply {
  readonly text?: string;
  readonly calls: readonly WantedCall[];
  /** What the provider is to seal, as all that goes on of the conversation. */
  readonly compacted?: string;
}

/** What a prompt offers, and says. */
export interface Asked {
  readonly said: readonly Said[];
  /** Names of the tools, those left out that are deferred. */
  readonly tools: readonly string[];
  /** Whether the provider itself is to compact the conversation. Default: no. */
  readonly compacts?: boolean;
}

/** How an agent's own tools are called. */
export interface AgentTools {
  readonly shell: (command: string) => WantedCall;
  /** Hands a task to a sub-agent. Default: the agent has none. */
  readonly delegate?: (prompt: string) => WantedCall;
  /** Calls of which each brings in a tool that is deferred. Default: none is. */
  readonly discoveries?: readonly WantedCall[];
}

/**
 * What one step of a plan does, all in parallel: commands, plans for sub-agents, tools that are brought in, by number.
 * The command beside a tool that is brought in holds the mark of the step.
 */
export type Step = readonly (string | { readonly delegate: string } | { readonly discover: number })[];

/** A task for the model. */
export interface Plan {
  /** Steps in order. */
  readonly steps: readonly Step[];
  /** Names of facts, written `FACT name=value` in results, that are needed again when all steps are done. */
  readonly facts: readonly string[];
  /** The file that is asked for; default none: the model says what it found. */
  readonly report?: string;
  /** Text that the model writes with each step, in tokens. Default: a few words now and then. */
  readonly textTokens?: number;
}

/** Plans by name. */
export type Plans = Readonly<Record<string, Plan>>;

/**
 * A model that does what the newest plan named in its prompt (`plan:NAME`) says, and knows nothing but that prompt:
 * which step it has reached it reads from the mark (`# NAME.7`) of its own calls, facts and rules from what it is shown.
 * What a line says has left it asks back, one at a time, if it is offered a tool for that. What it can't find it writes
 * down as lost. So the same prompt always has the same reply, and whatever a prompt lacks shows in the report.
 */
export function planModel(plans: Plans, tools: AgentTools): (asked: Asked) => Reply {
  return (asked) => {
    const { said } = asked;
    if (asked.compacts) return { calls: [], compacted: summaryOf(said, plans) };
    const shell = tools.shell("").name;
    const request = said.findLast((item) => item.type === "text" && item.role === "user");
    const wording = said.map((item) => item.type === "text" && item.role === "system" ? item.text : "").join(
      "\n",
    );
    const latest = request?.type === "text" ? request.text : "";
    const name = /\bplan:([A-Z]+)/g;
    if (!asked.tools.includes(shell)) {
      if (TITLE.test(wording) || TITLE.test(latest)) return say("A title");
      return say(summaryOf(said, plans));
    }
    if (isSummaryRequest(said)) return say(summaryOf(said, plans));
    const told = said.flatMap((item) => item.type === "text" && item.role !== "system" ? [item.text] : []);
    const planName = [...told.join("\n").matchAll(name)].at(-1)?.[1];
    const plan = planName === undefined ? undefined : plans[planName];
    if (!plan || planName === undefined) return say("Hello.");
    const step = reached(said, planName) + 1;
    const calls = plan.steps[step];
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
            ? tools.discoveries![call.discover]!
            : tools.delegate!(`Follow plan:${call.delegate} (# ${planName}.${step}) and say what it found.`)
        ),
      };
    }
    const found: string[] = [];
    for (const fact of plan.facts) {
      const value = valueOf(fact, said);
      const recall = value === undefined && asked.tools.includes("recall")
        ? wantedRecall(fact, said)
        : undefined;
      if (recall) return { calls: [{ name: "recall", args: recall }] };
      found.push(`${fact}=${value ?? "lost"}`);
    }
    if (plan.report === undefined || step > plan.steps.length) {
      const facts = found.map((fact) => `FACT ${fact}`).join(", ");
      return say(`Done with ${planName}.${plan.report === undefined && found.length > 0 ? ` ${facts}` : ""}`);
    }
    const ending = RULE.exec(textOf(said))?.[1] ?? "the rule is lost";
    const text = [`Report of ${planName}`, ...found, ending].join("\n");
    return { calls: [tools.shell(`printf '%s\\n' '${text}' > ${plan.report} # ${planName}.${step}`)] };
  };
}

/** How agents ask for a summary of the conversation, and for its title. */
const SUMMARY = /summar|compact|handoff/i;
const TITLE = /\btitle\b/i;

/** The rule that stands in the agent's file of rules. */
const RULE = /RULE: every report ends with the line "([\w ]+)"/;

function say(text: string): Reply {
  return { text, calls: [] };
}

function textOf(said: readonly Said[]): string {
  return said.map((item) => item.type === "call" ? item.args : item.text).join("\n");
}

function isSummaryRequest(said: readonly Said[]): boolean {
  const last = said.findLast((item) => item.type !== "text" || item.role !== "system");
  return last?.type === "text" && last.role === "user" && SUMMARY.test(last.text) &&
    !/\bplan:/.test(last.text);
}

/** The last step of a plan that was begun; −1 if none was. */
function reached(said: readonly Said[], plan: string): number {
  // A summary may be all that is left of the calls.
  const marks = textOf(said).matchAll(new RegExp(`# ${plan}\\.(\\d+)`, "g"));
  return Math.max(-1, ...[...marks].map(([, step]) => Number(step)));
}

function valueOf(fact: string, said: readonly Said[]): string | undefined {
  return new RegExp(`FACT ${fact}=(\\w+)`).exec(textOf(said))?.[1];
}

/**
 * Asks for what may hold a fact: first the result of the call that read it, then stretches of old turns; where none of them is
 * visible any more, as after a compaction, it searches all that left.
 */
function wantedRecall(fact: string, said: readonly Said[]): Readonly<Record<string, unknown>> | undefined {
  const reads = said.flatMap((item) =>
    item.type === "call" && item.args.includes(`${fact}.txt`) ? [item.id] : []
  );
  const lines = said.flatMap((item) =>
    item.type === "result" && reads.includes(item.id) || item.type === "text" && item.role !== "system"
      ? item.text.split("\n")
      : []
  );
  const refs = lines.flatMap((line) => parsePlaceholder(line)?.ref ?? []);
  // What it asked for once and has left again it asks for anew.
  const left = new Set(
    said.flatMap((item) => item.type === "result" && parsePlaceholder(item.text) ? [item.id] : []),
  );
  const asked = said.flatMap((item) =>
    item.type === "call" && item.name === "recall" && !left.has(item.id) ? [item.args] : []
  );
  const find = `FACT ${fact}`;
  const asks = (args: string, wanted: { readonly find: string; readonly ref?: string }) => {
    const { ref, find: text } = JSON.parse(args);
    return ref === wanted.ref && text === find;
  };
  return [...refs.map((ref) => ({ ref, find })), { find }]
    .find((wanted) => !asked.some((args) => asks(args, wanted)));
}

/** Whether a reply sums a conversation up. */
export function isSummary({ text, compacted }: Reply): boolean {
  return compacted !== undefined || text?.startsWith("<summary>") === true;
}

/** What a model would hand on: the plan, how far it got, and each fact that its prompt shows. */
function summaryOf(said: readonly Said[], plans: Plans): string {
  const text = textOf(said);
  const plan = [...text.matchAll(/\bplan:([A-Z]+)/g)].at(-1)?.[1];
  const marks = Object.keys(plans).map((name) => [name, reached(said, name)] as const)
    .filter(([, step]) => step >= 0).map(([name, step]) => `# ${name}.${step}`);
  const facts = [...new Set([...text.matchAll(/FACT \w+=\w+/g)].map(([fact]) => fact))];
  const summary = `The user wants plan:${plan}. Reached: ${marks.join(", ")}. ${facts.join(", ")}.`;
  // Who asks for another form takes nothing else.
  const form = /<(state_snapshot)>/.exec(text)?.[1];
  return `<summary>${form ? `<${form}>${summary}</${form}>` : summary}</summary>`;
}
