import {
  type AgentMessage,
  buildSessionContext,
  compact,
  convertToLlm,
  DEFAULT_COMPACTION_SETTINGS,
  prepareCompaction,
  type SessionTreeEntry,
  shouldCompact,
} from "@earendil-works/pi-agent-core";
import { fauxAssistantMessage, registerFauxProvider } from "@earendil-works/pi-ai";
import { countRequestTokens, type Message } from "@tare/messages";
import type { MakePolicy } from "@tare/simulator/economy";
import { fromPi, toPi } from "./pi_messages.ts";
import { Summariser, type SummaryCall } from "./summariser.ts";

const TIME = new Date(0).toISOString();

/**
 * pi's compaction with its default settings, when pi itself compacts: before a turn, if the last call came close to
 * the window, and inside a turn once a prompt exceeds it.
 */
export function piCompaction(summaryCall: SummaryCall): MakePolicy {
  return ({ windowTokens, countTokens }) => {
    const settings = DEFAULT_COMPACTION_SETTINGS;
    const summariser = new Summariser(summaryCall, countTokens);
    const entries: SessionTreeEntry[] = [];
    let taken = 0;
    let lastTokens = 0;
    let unseenTokens = 0;
    let counted = 0;
    const add = (entry: { readonly type: "message"; readonly message: AgentMessage }) =>
      entries.push({ ...entry, ...link(entries) });
    return {
      async view({ messages, tools }) {
        const first = Math.max(
          0,
          messages.findIndex(({ role }) => role !== "system" && role !== "developer"),
        );
        for (const message of toPi(messages.slice(Math.max(first, taken)))) add({ type: "message", message });
        taken = messages.length;
        const shown = (): Message[] => [
          ...messages.slice(0, first),
          ...fromPi(convertToLlm(buildSessionContext(entries).messages)),
        ];
        const newTurn = messages.at(-1)?.role !== "tool";
        let view = shown();
        counted = countRequestTokens({ messages: view, tools }, countTokens);
        const overflows = counted + unseenTokens > windowTokens;
        if (overflows || (newTurn && shouldCompact(lastTokens, windowTokens, settings))) {
          await compactEntries(entries, summariser);
          view = shown();
          counted = countRequestTokens({ messages: view, tools }, countTokens);
        }
        return summariser.charge({ messages: view, tools });
      },
      sent({ promptTokens, outputTokens = 0 }) {
        lastTokens = promptTokens + outputTokens;
        unseenTokens = promptTokens - counted;
      },
    };
  };
}

async function compactEntries(entries: SessionTreeEntry[], summariser: Summariser): Promise<void> {
  const prepared = prepareCompaction(entries, DEFAULT_COMPACTION_SETTINGS);
  if (!prepared.ok) throw prepared.error;
  if (!prepared.value) return;
  const { messagesToSummarize, turnPrefixMessages } = prepared.value;
  const parts = [messagesToSummarize, turnPrefixMessages].filter(({ length }) => length > 0).length;
  const provider = registerFauxProvider();
  const answer: Parameters<typeof provider.appendResponses>[0][number] = ({ systemPrompt = "", messages }) =>
    fauxAssistantMessage(
      summariser.answer(
        [{ role: "system", content: systemPrompt }, ...fromPi(messages)],
        1 / Math.max(1, parts),
      ),
    );
  provider.setResponses([answer, answer]);
  try {
    const compacted = await compact(prepared.value, provider.getModel(), "none");
    if (!compacted.ok) throw compacted.error;
    entries.push({ type: "compaction", ...compacted.value, ...link(entries) });
  } finally {
    provider.unregister();
  }
}

/** What ties the next entry to the ones before. */
function link(entries: readonly SessionTreeEntry[]): Pick<SessionTreeEntry, "id" | "parentId" | "timestamp"> {
  return { id: `e${entries.length}`, parentId: entries.at(-1)?.id ?? null, timestamp: TIME };
}
