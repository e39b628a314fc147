import { loadTokenizer } from "@tare/tiktoken";
import { simulator } from "@tare/simulator";

const tokenizer = await loadTokenizer();
const provider = simulator({ model: () => ({ content: "Done." }), tokenizer });
const result = "The quick brown fox jumps over the lazy dog, line after line. ".repeat(36);
const long = Array.from({ length: 200 }, (_, at) => ({ role: "user", content: `${at}: ${result}` }));

async function send(messages: readonly object[]): Promise<number> {
  const body = JSON.stringify({ model: "m", messages });
  const response = await provider.fetch(
    new Request("http://provider/v1/chat/completions", { method: "POST", body }),
  );
  return (await response.json()).usage.prompt_tokens;
}

const tokens = await send(long);
let sent = 0;

Deno.bench(`a prompt of ${tokens} tokens, sent again with one message more`, async () => {
  await send([...long, { role: "user", content: `${sent++}` }]);
});

Deno.bench(`a prompt of ${tokens} tokens that was never seen`, { n: 10 }, async () => {
  sent++;
  await send(long.map((message) => ({ ...message, content: `${sent} ${message.content}` })));
});
