import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { contentText } from "@tare/messages";
import { parsePlaceholder } from "@tare/prune/internal";
import { scripted, type SimulatedModel, toolCall } from "@tare/simulator";
import { play } from "../../gateway/compare.ts";
import { startGateway } from "../../gateway/gateway.ts";
import { ANSWER, CALLS, SCRIPT } from "../../gateway/long_session.ts";
import { playMessages, streamMessages } from "./anthropic_clients.ts";
import { playChat, type Player, playResponses, streamChat, streamResponses } from "./openai_clients.ts";
import { startUpstream } from "../../gateway/upstream.ts";

/** Returns a model that recalls elided results, first by itself, later next to the client's calls. */
function recallingModel(): { readonly model: SimulatedModel; readonly recalled: string[] } {
  const script = scripted(SCRIPT);
  const recalled: string[] = [];
  return {
    recalled,
    async model(request) {
      for (const message of request.messages) {
        if (message.role !== "tool" || recalled.length === 2) continue;
        const { ref } = parsePlaceholder(contentText(message.content).split("\n")[0] ?? "") ?? {};
        if (ref === undefined || recalled.includes(ref)) continue;
        recalled.push(ref);
        const call = toolCall("recall", { ref }, { id: `recall_${ref}` });
        if (recalled.length === 1) return { content: null, tool_calls: [call] };
        const reply = await script(request);
        return { ...reply, tool_calls: [...reply.tool_calls ?? [], call] };
      }
      return await script(request);
    },
  };
}

async function playWithRecalls(player: Player): Promise<void> {
  await using direct = await startUpstream(scripted(SCRIPT));
  const alone = await play(direct.baseURL, player);
  const { model, recalled } = recallingModel();
  await using upstream = await startUpstream(model);
  await using gateway = await startGateway(upstream);
  const guided = await play(gateway.baseURL, player);
  assertEquals([guided.answer, guided.calls], [ANSWER, CALLS]);
  // The upstream numbers the items of its responses, and has created more of them.
  const unnumbered = (bodies: readonly string[]) =>
    bodies.map((body) => body.replaceAll(/"(msg|fc)_[0-9a-f]{32}/g, '"$1'));
  assertEquals(unnumbered(guided.bodies), unnumbered(alone.bodies));
  assertEquals(gateway.errors, []);
  assertEquals(recalled.length, 2);
  for (const ref of recalled) {
    const visible = upstream.requests.flatMap(({ messages }) =>
      messages.flatMap((message) =>
        message.role === "tool" && message.tool_call_id === `recall_${ref}`
          ? contentText(message.content)
          : []
      )
    );
    // Later it may be evicted again, like any other result.
    assertStringIncludes(visible[0] ?? "", "1:  const ");
    const last = upstream.requests.at(-1)?.messages ?? [];
    const stays = last.some((message) => message.role === "tool" && message.tool_call_id === `recall_${ref}`);
    assert(stays, `the recall of ${ref} is not in the last prompt`);
  }
}

const PLAYERS = {
  playChat,
  streamChat,
  playResponses,
  streamResponses,
  playMessages: playMessages("none"),
  streamMessages: streamMessages("system and end"),
};

for (const [name, player] of Object.entries(PLAYERS)) {
  Deno.test(`gateway: recalls are answered without the client noticing: ${name}`, async () => {
    await playWithRecalls(player);
  });
}
