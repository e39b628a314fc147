import { assert, assertEquals } from "@std/assert";
import { gateway } from "@tare/gateway";
import { hashText } from "@tare/messages/internal";
import { profileNamed } from "@tare/planner";
import { simulator } from "@tare/simulator";

const tokenizer = { encode: (text: string) => text.split(/[ \n]/).map(hashText) };
const words = (tokens: number, word: string) => Array.from({ length: tokens }, () => word).join(" ");

async function callsWith(
  { instructions, mark = false, headers = {} }: {
    readonly instructions: readonly string[];
    readonly mark?: boolean;
    readonly headers?: Record<string, string>;
  },
) {
  let nowMs = 0;
  const profile = profileNamed(mark ? "anthropic-5m" : "openai");
  const provider = simulator({
    model: () => ({ content: "It is done." }),
    tokenizer,
    profile,
    now: () => nowMs,
  });
  const { fetch, sessions } = gateway({
    upstreams: {
      chat: { baseURL: "http://provider/v1", profile },
      messages: { baseURL: "http://provider/v1", profile },
    },
    fetch: (...args) => provider.fetch(new Request(...args)),
    planning: { evict: "lossless" },
    countTokens: () => Promise.resolve((text) => tokenizer.encode(text).length),
    now: () => nowMs,
  });
  const messages: object[] = [{ role: "user", content: words(2_000, "question") }];
  for (const text of instructions) {
    nowMs += 20_000;
    const body = mark
      ? {
        ...{ model: "m", max_tokens: 9, messages },
        system: [{ type: "text", text, cache_control: { type: "ephemeral" } }],
      }
      : { model: "m", messages: [{ role: "system", content: text }, ...messages] };
    const path = mark ? "/messages" : "/chat/completions";
    const response = await fetch(
      new Request(`http://provider/v1${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", "anthropic-version": "2023-06-01", ...headers },
        body: JSON.stringify(body),
      }),
    );
    await response?.text();
    messages.push({ role: "assistant", content: "It is done." }, {
      role: "user",
      content: words(10, "more"),
    });
  }
  const { sessions: [listed] } = (await sessions.list({ limit: 9, search: "" }))!;
  return await (await sessions.open(listed!.id))!.calls();
}

const RULES = words(3_000, "rule");
const causes = (
  call: { readonly uncached: readonly { readonly cause: string; readonly tokens: number }[] },
) => Object.fromEntries(call.uncached.map(({ cause, tokens }) => [cause, tokens]));

Deno.test("ledger: the line of a client's instructions that breaks its prefix is reported, with the tokens read again", async () => {
  const dated = (minute: number) => `${RULES}\nIt is 12:0${minute} now.\n${RULES}`;
  const [first, second, third] = await callsWith({ instructions: [dated(1), dated(2), dated(2)] });
  assertEquals([first?.changed, third?.changed], [null, null]);
  const { where, kind, line, before, after, tokens } = second!.changed!;
  assertEquals([where, kind, line, before, after], [
    "instructions",
    ...["date", 2, "It is 12:01 now.", "It is 12:02 now."],
  ]);
  // After the line, the question was there before; half of the instructions was served.
  const { client_changed = 0, ...others } = causes(second!);
  assert(tokens > 8_000 && client_changed > 4_900 && client_changed < 5_200, JSON.stringify(causes(second!)));
  assert(Object.values(others).every((its) => its < 100), JSON.stringify(others));
  assert(second!.spent.costUnits.changed > 4_900);
  assertEquals("client_changed" in causes(third!), false);
});

Deno.test("ledger: prompts without a cache request are reported", async () => {
  const headers = { "x-tare": "dry-run" };
  const [, second] = await callsWith({ instructions: [RULES, RULES], mark: true, headers });
  const { not_marked = 0 } = causes(second!);
  assert(not_marked > 1_900 && not_marked < 2_100, JSON.stringify(causes(second!)));
  const [, , helped] = await callsWith({ instructions: [RULES, RULES, RULES], mark: true });
  assertEquals("not_marked" in causes(helped!), false);
});
