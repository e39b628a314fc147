import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, type PlanningSession, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";

/** Returns code-like text, at four characters per token. */
function text(seed: number, tokens: number): string {
  let all = "";
  for (let at = 0; all.length < 4 * tokens; at++) {
    all += `const someName${seed}_${at % 40} = otherModule.method${(seed * 7 + at) % 90}(argument${at});\n`;
  }
  return all;
}

/** Returns the first messages of a growing turn. Each step reads or runs something and explains it. */
function turn(length: number): Message[] {
  const messages: Message[] = [{ role: "user", content: "Find out why the build fails." }];
  for (let at = 0; messages.length < length; at++) {
    const name = at % 3 === 0 ? "read" : "run";
    const call = {
      id: `${at}`,
      type: "function" as const,
      function: { name, arguments: `{"path":"src/module${at % 50}.ts","symbol":"someName${at >> 1}_3"}` },
    };
    messages.push({ role: "assistant", content: text(at, 40), tool_calls: [call] });
    messages.push({ role: "tool", tool_call_id: call.id, content: text(at + 100_000, 60 + at * 37 % 900) });
  }
  return messages;
}

interface Prepared {
  readonly session: PlanningSession;
  readonly next: () => Promise<void>;
}

async function prepared(length: number, profile: string): Promise<Prepared> {
  const all = turn(2 * length + 4_000);
  const session = plannerSession({
    profile: profileNamed(profile),
    countTokens: estimateTokens,
    archive: memoryArchive(),
  });
  let [at, nowMs] = [1, 0];
  const messages = all.slice(0, 1);
  const next = async () => {
    const seen = await session.view({ messages, tools: [] }, { nowMs, recall: true });
    session.sent({
      promptTokens: seen.promptTokens,
      cachedTokens: seen.predictedCachedTokens,
      outputTokens: 50,
    });
    messages.push(...all.slice(at, at + 2));
    at += 2;
    nowMs += 10_000;
  };
  while (at < length) await next();
  return { session, next };
}

for (const profile of ["anthropic-5m", "local"]) {
  for (const length of [400, 6_400, 20_000]) {
    const { next } = await prepared(length, profile);
    Deno.bench(`view() and sent() of the next call of one turn of ${length} messages, ${profile}`, {
      group: profile,
      n: 200,
      warmup: 20,
    }, next);
  }
}

const { session } = await prepared(6_400, "anthropic-5m");
const messages = turn(6_400);
Deno.bench("view() of a call of 6400 messages after a restart", { n: 5 }, async () => {
  const restarted = plannerSession({
    profile: profileNamed("anthropic-5m"),
    countTokens: estimateTokens,
    archive: memoryArchive(),
    state: JSON.parse(JSON.stringify(session.state)),
  });
  await restarted.view({ messages, tools: [] }, { nowMs: 1_000_000_000, recall: true });
});
