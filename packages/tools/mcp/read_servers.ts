import { resolve } from "@std/path";
import { schemaChecker } from "@tare/loop/internal";
import { asRecord } from "@tare/wire/internal";
import { type Static, Type } from "typebox";

/** MCP server of a configuration file. */
export type McpServerEntry =
  & {
    /** Prefix of its tools' names. */
    readonly name: string;
    /** Time limit of a call, in milliseconds. Default: the loop's. */
    readonly timeoutMs?: number;
    /** Whether a tool's read-only hint is trusted. Default: false: it needs approval like any other. */
    readonly trustHints?: boolean;
  }
  & (
    /** Local program. */
    | {
      readonly by: "stdio";
      readonly command: string;
      readonly args: readonly string[];
      /** Complete environment. `PATH` is added if missing. */
      readonly env: Readonly<Record<string, string>>;
      /** Absolute path of its working directory. Default: `cwd` of the options. */
      readonly cwd?: string;
      /** Whether it runs outside of the sandbox, with the user's rights. Default: false. */
      readonly isOutside?: boolean;
      /** Absolute paths of additional writable folders in the sandbox. Default: none. */
      readonly folders?: readonly string[];
    }
    /** Remote server over streamable HTTP. */
    | {
      readonly by: "http";
      readonly url: string;
      /** Headers of every request, such as `authorization`. */
      readonly headers: Readonly<Record<string, string>>;
    }
  );

const texts = Type.Unsafe<Readonly<Record<string, string>>>({
  type: "object",
  additionalProperties: { type: "string" },
});
const optionalTexts = Type.Optional(Type.Array(Type.String()));
const flag = Type.Optional(Type.Boolean());

const COMMON = {
  type: Type.Optional(Type.Unknown()),
  timeout: Type.Optional(Type.Integer({ minimum: 1000, maximum: 2 ** 31 - 1 })),
  disabled: flag,
  trustHints: flag,
};

const STDIO = Type.Object({
  command: Type.String({ minLength: 1 }),
  args: optionalTexts,
  env: Type.Optional(texts),
  cwd: Type.Optional(Type.String()),
  sandbox: flag,
  folders: optionalTexts,
  ...COMMON,
}, { additionalProperties: false });

const HTTP = Type.Object({
  url: Type.String(),
  headers: Type.Optional(texts),
  ...COMMON,
}, { additionalProperties: false });

const CHECKS = {
  stdio: schemaChecker({ ...STDIO }, "it"),
  http: schemaChecker({ ...HTTP }, "it"),
};

const TYPES: Readonly<Record<string, McpServerEntry["by"]>> = {
  stdio: "stdio",
  http: "http",
  "streamable-http": "http",
  streamableHttp: "http",
};

/** At most 32 of the 64 characters that providers allow for tool names. */
const SERVER_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-])){0,31}$/;

/**
 * Returns the servers under `mcpServers` of a JSON text, in the common form of MCP clients; other fields are
 * ignored, disabled servers omitted. Relative folders are resolved against `folder`.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { readMcpServers } from "@tare/tools/mcp";
 *
 * const text = '{"mcpServers": {"docs": {"url": "https://docs.example/mcp"}}}';
 * assertEquals(readMcpServers(text, "/etc"), [
 *   { name: "docs", by: "http", url: "https://docs.example/mcp", headers: {} },
 * ]);
 * ```
 *
 * @throws {RangeError} with the invalid field and what would be valid, without values of `env` and `headers`.
 */
export function readMcpServers(text: string, folder: string): readonly McpServerEntry[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (cause) {
    // The parser's message may quote a key.
    throw new RangeError(
      "Cannot read the MCP servers: the file is not valid JSON. JSON allows no comments and no comma after the last entry.",
      { cause },
    );
  }
  const servers = asRecord(asRecord(file)?.mcpServers);
  if (servers === undefined) {
    throw new RangeError(
      'Cannot read the MCP servers: the file must be an object such as {"mcpServers": {"name": {"command": "…"}}}.',
    );
  }
  return Object.entries(servers).flatMap(([name, entry]) => readEntry(name, { entry, folder }));
}

function readEntry(
  name: string,
  { entry, folder }: { readonly entry: unknown; readonly folder: string },
): readonly McpServerEntry[] {
  const refuse = (what: string): never => {
    throw new RangeError(`Cannot use MCP server ${JSON.stringify(name)}: ${what}.`);
  };
  if (!SERVER_NAME.test(name)) {
    refuse(
      "its tools' names begin with its name, which must be 1 to 32 letters, digits, - and single _ between them",
    );
  }
  const given = asRecord(entry) ?? refuse("it must be an object with command or url");
  const { type } = given;
  if (type === "sse") {
    refuse("its type is sse, which streamable HTTP has replaced: use its streamable HTTP address");
  }
  if (type !== undefined && (typeof type !== "string" || !Object.hasOwn(TYPES, type))) {
    refuse(`type is ${JSON.stringify(type)}, but must be ${Object.keys(TYPES).join(" or ")}`);
  }
  if ((given.command === undefined) === (given.url === undefined)) {
    refuse("it must have either command, a local program, or url");
  }
  const by = given.command === undefined ? "http" : "stdio";
  if (typeof type === "string" && TYPES[type] !== by) {
    refuse(`type is ${type}, but it has ${by === "http" ? "a url" : "a command"}`);
  }
  const fault = CHECKS[by](given);
  if (fault !== undefined) refuse(fault);
  const { timeout, trustHints = false, disabled } = given as Static<typeof STDIO> | Static<typeof HTTP>;
  if (disabled) return [];
  const common = {
    name,
    ...(timeout !== undefined && { timeoutMs: timeout }),
    ...(trustHints && { trustHints }),
  };
  const plain = (field: string, values: Readonly<Record<string, string>> = {}) => {
    const [name] = Object.entries(values).find(([, text]) => text.includes("${")) ?? [];
    if (name === undefined) return values;
    return refuse(`${field}.${name} holds \${…}, which is not replaced here: write the value itself`);
  };
  if (by === "http") {
    const { url, headers } = given as Static<typeof HTTP>;
    if (!/^https?:$/.test(URL.parse(url)?.protocol ?? "")) {
      refuse("url must be an address such as https://host/mcp");
    }
    return [{ ...common, by, url, headers: plain("headers", headers) }];
  }
  const { command, args = [], env, cwd, sandbox = true, folders } = given as Static<typeof STDIO>;
  return [{
    ...{ ...common, by, command, args, env: plain("env", env) },
    ...(cwd !== undefined && { cwd: resolve(folder, cwd) }),
    ...(!sandbox && { isOutside: true }),
    ...(folders !== undefined && { folders: folders.map((one) => resolve(folder, one)) }),
  }];
}
