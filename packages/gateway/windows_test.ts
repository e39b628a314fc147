import { assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { BASH, chatStep } from "./agents_fixture_test.ts";
import { completion, gatewayed, post, UPSTREAM } from "./fixture_test.ts";
import type { Upstream } from "./options.ts";

const TOO_LONG =
  "This model's maximum context length is 40000 tokens. However, your messages resulted in 50000 tokens.";

/** How many of seven long results a model still sees, before and after its provider has told its window in an error. */
async function play(windowTokens: Upstream["windowTokens"], model = "gpt-5") {
  let isRefused = false;
  // Reading is all but free there, so that nothing leaves unless the window is full.
  const { windowTokens: _, ...rest } = { ...UPSTREAM, profile: profileNamed("local") };
  const chat = windowTokens === undefined ? rest : { ...rest, windowTokens };
  const { fetch, seen } = gatewayed(
    ({ text }) =>
      isRefused
        ? Response.json({ error: { message: TOO_LONG } }, { status: 400 })
        : completion({ content: "Hi" }, Math.ceil(text.length / 4)),
    { upstreams: { chat }, control: 0 },
  );
  const messages: object[] = [{ role: "user", content: "Read all." }];
  const shown = async (more: readonly object[]) => {
    messages.push(...more);
    await (await fetch(post({ model, messages, tools: [BASH] }))).text();
    return seen.at(-1)?.text.match(/all of file\d: one/g)?.length;
  };
  let before: number | undefined;
  for (let at = 0; at < 7; at++) {
    before = await shown(chatStep(`file${at}`, `all of file${at}: ${"one two three four ".repeat(1_500)}`));
  }
  isRefused = true;
  await shown([]);
  isRefused = false;
  const after = await shown([{ role: "assistant", content: "Hi" }, { role: "user", content: "Go on." }]);
  return { before: before === 7, after: after === 7 };
}

Deno.test("gateway goes by a model's published window, until an error of the provider's tells it", async () => {
  assertEquals(await play(undefined), { before: true, after: false });
  // Nothing is published of this one.
  assertEquals(await play(undefined, "other"), { before: true, after: false });
});

Deno.test("gateway asks for a model's window, which an error outranks, and goes by one that is set whatever is told", async () => {
  const asked = (tokens: number) => (model: string) => model === "gpt-5" ? tokens : undefined;
  assertEquals(await play(asked(30_000)), { before: false, after: false });
  assertEquals(await play(asked(200_000)), { before: true, after: false });
  assertEquals(await play(200_000), { before: true, after: true });
});
