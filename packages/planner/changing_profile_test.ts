import { assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, type Profile, profileNamed } from "@tare/planner";
import { classicSession } from "./classic/classic_session.ts";
import { memoryArchive } from "@tare/prune";

function step(number: number): Message[] {
  const call = {
    id: `c${number}`,
    type: "function",
    function: { name: "read", arguments: `{"at":${number}}` },
  } as const;
  return [
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: call.id, content: `line ${number} of a long file\n`.repeat(300) },
  ];
}

const CALLS = 24;

/** Returns the calls of a turn at which the prompt was rewritten, and the profile's name after each. */
async function play(profileAt: (call: number) => Profile) {
  let call = 0;
  const session = plannerSession({
    profile: () => profileAt(call),
    archive: memoryArchive(),
    countTokens: estimateTokens,
    mechanisms: {
      context: true,
      prune: true,
      schemas: true,
      truncate: false,
      references: false,
      normalization: false,
    },
  });
  const messages: Message[] = [{ role: "user", content: "Read it all." }];
  const rewritten: number[] = [];
  const names: string[] = [];
  for (; call < CALLS; call++) {
    const view = await session.view({ messages, tools: [] }, { nowMs: call * 1_000, model: "m" });
    if (view.rewrites.length > 0) rewritten.push(call);
    // As reported by servers that cache token by token.
    const cachedTokens = call === 0 ? 0 : view.promptTokens - 1_001;
    session.sent({ promptTokens: view.promptTokens, cachedTokens, outputTokens: 9 }, view);
    names.push(session.profile.name);
    messages.push(...step(call));
  }
  return { rewritten, names };
}

Deno.test("plannerSession() uses the current profile, whatever earlier usage indicated", async () => {
  const [none, local] = [profileNamed("none"), profileNamed("local")];
  const unknown = await play(() => none);
  assertEquals([unknown.rewritten.length > 0, unknown.names.includes("none")], [true, true]);
  const known = await play(() => local);
  assertEquals(known, { rewritten: [], names: Array(CALLS).fill("local") });
  const late = await play((call) => call < 2 ? none : local);
  assertEquals([late.rewritten.filter((call) => call >= 2), late.names.slice(2)], [
    [],
    Array(CALLS - 2).fill("local"),
  ]);
});

Deno.test("classicSession() uses the current profile", () => {
  let profile = profileNamed("none");
  const session = classicSession({
    profile: () => profile,
    archive: memoryArchive(),
    countTokens: estimateTokens,
  });
  const before = session.profile.name;
  profile = profileNamed("local");
  assertEquals([before, session.profile.name], ["none", "local"]);
});

for (const [name, make] of Object.entries({ plannerSession, classicSession })) {
  Deno.test(`${name}() uses the current window`, async () => {
    let windowTokens: number | undefined;
    const session = make({
      profile: profileNamed("local"),
      archive: memoryArchive(),
      countTokens: estimateTokens,
      windowTokens: () => windowTokens,
    });
    const messages: Message[] = [
      { role: "user", content: "Read it all." },
      ...[1, 2, 3, 4, 5, 6, 7, 8].flatMap(step),
    ];
    const tokens: number[] = [];
    for (windowTokens of [undefined, 1_000_000, 10_000, 1_000_000]) {
      const view = await session.view({ messages, tools: [] }, { nowMs: 0, model: "m" });
      session.sent({ promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 9 }, view);
      tokens.push(view.promptTokens);
    }
    const [unknown = 0, large, small = 0, later] = tokens;
    assertEquals([unknown > 10_000, large, small < 10_000, later], [true, unknown, true, small]);
  });
}
