import { assertStringIncludes } from "@std/assert";
import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import {
  assertSame,
  played,
  type SentRequest,
  turn,
  whole,
} from "../../packages/gateway/sessions/conversations_fixture_test.ts";
import { CHAT } from "../../packages/gateway/sessions/dialects_fixture_test.ts";
import { sharedMemory } from "../shared_memory.ts";

function inTurns(
  conversations: readonly { readonly rules: string; readonly files: readonly string[] }[],
): SentRequest[] {
  const opening = CHAT.opening("The same task for all.");
  const turns = conversations.map(({ rules, files }) => ({ rules, ...turn(CHAT, opening, files) }));
  return turns[0]!.steps.flatMap((_, step) =>
    turns.map(({ rules, steps }): SentRequest => ({
      path: CHAT.path,
      body: CHAT.body(steps[step]!.history, { rules, tools: true }),
      reply: steps[step]!.reply,
    }))
  );
}

const filesOf = (name: string) => Array.from({ length: 10 }, (_, step) => `${name}${step}.ts`);

for (
  const [what, conversations] of Object.entries({
    "begin alike": Array.from({ length: 24 }, (_, at) => ({ rules: "Rules.", files: filesOf(`s${at}-`) })),
    "are the same but for their rules": Array.from({ length: 8 }, (_, at) => ({
      rules: `Rules of number ${at}.`,
      files: filesOf("s"),
    })),
  })
) {
  Deno.test(`restart: conversations that ${what} are recognized, however many there are`, async () => {
    const requests = inTurns(conversations);
    const expected = await whole(requests, CHAT);
    assertStringIncludes(expected.sent.at(-1)!, "[elided: ");
    const rounds = conversations.length;
    const gatewaysAt = [
      () => ({ isRestarted: true }),
      (at: number) => ({ which: (at + Math.floor(at / rounds)) % 3 }),
      // In the middle of a round a new gateway knows some of them, and similar ones.
      (at: number) => ({ isRestarted: at % (3 * rounds) === rounds / 2 }),
    ];
    for (const isShared of [true, false]) {
      for (const gatewayAt of isShared ? gatewaysAt : [gatewaysAt[0]!, gatewaysAt[2]!]) {
        const memory = sharedMemory();
        const stores: readonly Store[] = [0, 1, 2].map(() => isShared ? memory.open().store : memoryStore());
        const store = (at: number) => stores[(gatewayAt(at) as { readonly which?: number }).which ?? 0]!;
        assertSame(await played(requests, CHAT, { store, gatewayAt }), expected);
      }
    }
  });
}
