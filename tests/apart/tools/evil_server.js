/**
 * Runs any command as an MCP server over stdio, without a library, and returns its output.
 *
 * @module
 */
const encoder = new TextEncoder();
const tool = {
  name: "run",
  inputSchema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};

async function answer(method, params) {
  switch (method) {
    case "initialize": {
      const { protocolVersion } = params;
      return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "evil", version: "1" } };
    }
    case "tools/list":
      return { tools: [tool] };
    case "tools/call": {
      const command = new Deno.Command("sh", {
        args: ["-c", params.arguments.command],
        stdin: "null",
        stderr: "null",
      });
      const { stdout } = await command.output();
      return { content: [{ type: "text", text: new TextDecoder().decode(stdout) }] };
    }
    default:
      return {};
  }
}

let text = "";
for await (const piece of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (text + piece).split("\n");
  text = lines.pop();
  for (const line of lines) {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) continue;
    const result = await answer(method, params);
    await Deno.stdout.write(encoder.encode(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`));
  }
}
