import { assertEquals, assertThrows } from "@std/assert";
import { readMcpServers } from "@tare/tools/mcp";

const read = (servers: unknown) => readMcpServers(JSON.stringify({ mcpServers: servers }), "/folder");

Deno.test("readMcpServers() reads programs and addresses, and omits disabled and unknown entries", () => {
  const text = JSON.stringify({
    theme: "dark",
    mcpServers: {
      plain: { command: "server" },
      full: {
        type: "stdio",
        command: "npx",
        args: ["-y", "server"],
        env: { KEY: "v" },
        cwd: "../up",
        timeout: 5000,
        disabled: false,
      },
      "at-address_1": {
        type: "streamable-http",
        url: "https://a.example/mcp",
        headers: { authorization: "b" },
      },
      off: { command: "server", disabled: true },
    },
  });
  assertEquals(readMcpServers(text, "/folder/sub"), [
    { name: "plain", by: "stdio", command: "server", args: [], env: {} },
    {
      name: "full",
      timeoutMs: 5000,
      by: "stdio",
      command: "npx",
      args: ["-y", "server"],
      env: { KEY: "v" },
      cwd: "/folder/up",
    },
    { name: "at-address_1", by: "http", url: "https://a.example/mcp", headers: { authorization: "b" } },
  ]);
});

Deno.test("readMcpServers() explains invalid entries", () => {
  for (const text of ["{", "[]", "5", '{"servers": {}}', '{"mcpServers": []}']) {
    assertThrows(() => readMcpServers(text, "/"), RangeError, "Cannot read the MCP servers: the file");
  }
  const cases: [Record<string, unknown>, string][] = [
    [
      { "a b": { command: "x" } },
      '"a b": its tools\' names begin with its name, which must be 1 to 32 letters',
    ],
    [{ a__b: { command: "x" } }, "which must be 1 to 32 letters, digits, - and single _ between them."],
    [{ a_: { command: "x" } }, "between them."],
    [{ ["a".repeat(33)]: { command: "x" } }, "which must be 1 to 32"],
    [{ a: "x" }, '"a": it must be an object with command or url.'],
    [{ a: {} }, '"a": it must have either command, a local program, or url.'],
    [{ a: { command: "x", url: "http://y" } }, "it must have either command"],
    [{ a: { type: "sse", url: "http://y" } }, "its type is sse, which streamable HTTP has replaced"],
    [
      { a: { type: "toString", command: "x" } },
      'type is "toString", but must be stdio or http or streamable-http',
    ],
    [{ a: { type: 5, command: "x" } }, "type is 5, but must be stdio"],
    [{ a: { type: "http", command: "x" } }, "type is http, but it has a command."],
    [{ a: { type: "stdio", url: "http://y" } }, "type is stdio, but it has a url."],
    [
      { a: { command: "x", comand: "x" } },
      "it must not have 'comand' (allowed: command, args, env, cwd, sandbox, folders, type, timeout",
    ],
    [
      { a: { url: "http://y", env: {} } },
      "it must not have 'env' (allowed: url, headers, type, timeout, disabled, trustHints).",
    ],
    [{ a: { command: "" } }, "command must not be empty."],
    [{ a: { command: "x", args: "y" } }, "args must be array."],
    [{ a: { command: "x", args: [5] } }, "args.0 must be string."],
    [{ a: { command: "x", env: [] } }, "env must be object."],
    [{ a: { command: "x", env: { A: 1 } } }, "env.A must be string."],
    [{ a: { command: "x", cwd: 5 } }, "cwd must be string."],
    [{ a: { command: "x", disabled: "no" } }, "disabled must be boolean."],
    [
      { a: { command: "x", timeout: 60 } },
      "timeout must be >= 1000.",
    ],
    [{ a: { command: "x", timeout: 2 ** 31 } }, "timeout must be <= 2147483647."],
    [{ a: { url: "file:///y" } }, "url must be an address such as https://host/mcp."],
    [{ a: { url: "http://y", headers: { a: "${b}" } } }, "headers.a holds ${…}, which is not replaced here"],
  ];
  for (const [servers, expected] of cases) assertThrows(() => read(servers), RangeError, expected);
});
