import type { Message } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { applyElisions, elide, memoryArchive, pruneResults, selectElisions } from "@tare/prune";

const { count: countTokens } = await loadTokenizer();

/** 400 messages, 200,000 tokens. */
const messages: Message[] = Array.from({ length: 200 }, (_, n): Message[] => [
  {
    role: "assistant",
    tool_calls: [{
      id: `${n}`,
      type: "function",
      function: { name: "read_file", arguments: JSON.stringify({ path: `src/file_${n % 60}.ts` }) },
    }],
  },
  { role: "tool", tool_call_id: `${n}`, content: `line ${n} of some file\n`.repeat(160) },
]).flat();
const tools = { read_file: { stance: "rederivable", reads: "path" } } as const;
const options = { countTokens, tools, recall: true, archive: memoryArchive() };
const candidates = selectElisions(messages, options);
const elisions = await elide(messages, candidates, options);

Deno.bench("selectElisions() over 400 messages, tokens counted", () => {
  selectElisions(messages, options);
});

Deno.bench("selectElisions() over 400 messages that are new", { group: "new" }, (bench) => {
  const fresh = structuredClone(messages);
  bench.start();
  selectElisions(fresh, options);
  bench.end();
});

Deno.bench("applyElisions() of 180 elisions", () => {
  applyElisions(messages, elisions);
});

Deno.bench("pruneResults() of 400 messages, archive in memory", async () => {
  await pruneResults(messages, options);
});
