import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { scripted, toolCall } from "@tare/simulator";
import OpenAI from "openai";
import { recordingProvider } from "../recording_provider.ts";
import { type ServerProcess, startServerProcess } from "./server_process.ts";

const APPEND = "echo once >> log.txt; sleep 0.2";
const TOOL = {
  type: "function",
  function: { name: "pick", parameters: { type: "object", properties: {} } },
} as const;

interface Answer {
  readonly tool_call_id?: string;
  readonly content: string;
}

Deno.test("crash: a client's calls are answered across a killed server, and the agent's own run once", async () => {
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "workspace");
  await Deno.mkdir(workspace);
  const provider = recordingProvider(
    scripted([
      { tool_calls: [toolCall("pick", {}), toolCall("shell", { command: APPEND })] },
      { content: "Now I know.", tool_calls: [toolCall("pick", {})] },
      { content: "Done." },
    ]),
    () => 0,
  );
  const args = [
    "--port=0",
    "--approvals=allow",
    `--workspace=${workspace}`,
    `--data=${join(folder, "data")}`,
    "--model=m",
  ];
  const start = () => startServerProcess([...args, `--base-url=${provider.url}`]);
  let server: ServerProcess | undefined;
  try {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Pick." }];
    const sessions = new Set<string | null>();
    const finishes: unknown[] = [];
    for (let turn = 0; turn < 3; turn++) {
      server = await start();
      const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "any" });
      const { data, response } = await client.chat.completions.create({
        model: "agent",
        messages,
        tools: [TOOL],
      })
        .withResponse();
      sessions.add(response.headers.get("tare-session"));
      const [choice] = data.choices;
      finishes.push(choice!.finish_reason);
      messages.push(choice!.message);
      for (const { id } of choice!.message.tool_calls ?? []) {
        messages.push({ role: "tool", tool_call_id: id, content: `blue ${turn}` });
      }
      await server.kill();
    }
    assertEquals([finishes, sessions.size], [["tool_calls", "tool_calls", "stop"], 1]);
    assertEquals(await Deno.readTextFile(join(workspace, "log.txt")), "once\n");
    server = await start();
    const { messages: history } = await (await fetch(`${server.url}/tare/v1/sessions/${[...sessions][0]}`))
      .json();
    const answered = history.flatMap(({ tool_call_id: id, content }: Answer) =>
      id ? [content.slice(0, 6)] : []
    );
    assertEquals([answered, answered.length], [["exit c", "blue 0", "blue 1"], 3]);
  } finally {
    await server?.kill();
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
});
