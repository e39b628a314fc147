import { resolve } from "@std/path";
import { asRecord } from "@tare/wire/internal";

/** An MCP server, as a file names it. */
export type McpServerEntry =
  & {
    /** What its tools' names begin with. */
    readonly name: string;
    /** Longest time of a call, in milliseconds. Default: the loop's. */
    readonly timeoutMs?: number;
    /** Whether a tool that says it only reads is believed. Default: no, and it is asked for like any other. */
    readonly trustHints?: boolean;
  }
  & (
    /** A program of this machine. */
    | {
      /** How it is reached: by its standard input and output. */
      readonly by: "stdio";
      readonly command: string;
      readonly args: readonly string[];
      /** Its whole environment, but for `PATH` where that isn't among it. */
      readonly env: Readonly<Record<string, string>>;
      /** Absolute path of the folder that it starts in. Default: whoever starts it says. */
      readonly cwd?: string;
      /** Whether it runs with the person's own rights where there is a sandbox. Default: no. */
      readonly isOutside?: boolean;
      /** Absolute paths of further folders that it may write in there. Default: none. */
      readonly folders?: readonly string[];
    }
    /** A server at an address. */
    | {
      /** How it is reached: by streamable HTTP. */
      readonly by: "http";
      readonly url: string;
      /** Sent with every request, such as `authorization`. */
      readonly headers: Readonly<Record<string, string>>;
    }
  );

const COMMON = ["type", "timeout", "disabled", "trustHints"];
const FIELDS = {
  stdio: ["command", "args", "env", "cwd", "sandbox", "folders", ...COMMON],
  http: ["url", "headers", ...COMMON],
};
const TYPES: Readonly<Record<string, keyof typeof FIELDS>> = {
  stdio: "stdio",
  http: "http",
  "streamable-http": "http",
  streamableHttp: "http",
};

/** Of tools' names, which providers limit to 64 characters, so many are the server's. */
const SERVER_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9-]|_(?=[A-Za-z0-9-])){0,31}$/;

const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Reads the servers that a JSON text names under `mcpServers`, in the form that MCP's clients share; what else stands
 * beside that is other programs' and ignored. Disabled servers are left out. Relative folders count from `folder`.
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
 * @throws {RangeError} naming the field that is wrong and what would be right. No value of `env` or `headers` is in it.
 */
export function readMcpServers(text: string, folder: string): readonly McpServerEntry[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (cause) {
    // The parser's own words may quote what stands there, and that may be a key.
    throw new RangeError(
      "Cannot read the MCP servers: the file is not valid JSON. That has no comments, and no comma behind the last entry.",
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
  const {
    type,
    command,
    url,
    args = [],
    env = {},
    headers = {},
    cwd,
    timeout,
    disabled = false,
    trustHints = false,
  } = given;
  const { sandbox = true, folders } = given;
  if (type === "sse") {
    refuse("its type is sse, which streamable HTTP has replaced: give its address for that");
  }
  if (type !== undefined && (typeof type !== "string" || !Object.hasOwn(TYPES, type))) {
    refuse(`type is ${JSON.stringify(type)}, but must be ${Object.keys(TYPES).join(" or ")}`);
  }
  if ((command === undefined) === (url === undefined)) {
    refuse("it must have either command, a program of this machine, or url");
  }
  const by = command === undefined ? "http" : "stdio";
  if (typeof type === "string" && TYPES[type] !== by) {
    refuse(`type is ${type}, but it has ${command === undefined ? "a url" : "a command"}`);
  }
  const unknown = Object.keys(given).find((field) => !FIELDS[by].includes(field));
  if (unknown !== undefined) refuse(`${unknown} is not known; there are ${FIELDS[by].join(", ")}`);
  if (typeof disabled !== "boolean") refuse("disabled must be true or false");
  if (typeof trustHints !== "boolean") refuse("trustHints must be true or false");
  if (timeout !== undefined && !(isWhole(timeout) && timeout >= 1000 && timeout <= MAX_TIMEOUT_MS)) {
    refuse(
      `timeout is ${JSON.stringify(timeout)}, but must be a whole number of milliseconds, at least 1000`,
    );
  }
  if (disabled) return [];
  const common = {
    name,
    ...(timeout !== undefined && { timeoutMs: timeout as number }),
    ...(trustHints === true && { trustHints }),
  };
  if (by === "http") {
    if (typeof url !== "string" || !/^https?:$/.test(URL.parse(url)?.protocol ?? "")) {
      return refuse("url must be an address such as https://host/mcp");
    }
    return [{ ...common, by, url, headers: readTexts("headers", headers, refuse) }];
  }
  if (typeof command !== "string" || command === "") return refuse("command must be the name of a program");
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === "string")) {
    return refuse("args must be an array of texts");
  }
  if (cwd !== undefined && typeof cwd !== "string") return refuse("cwd must be a folder");
  if (typeof sandbox !== "boolean") return refuse("sandbox must be true or false");
  if (folders !== undefined && !(Array.isArray(folders) && folders.every((one) => typeof one === "string"))) {
    return refuse("folders must be an array of paths");
  }
  return [{
    ...common,
    by,
    command,
    args,
    env: readTexts("env", env, refuse),
    ...(cwd !== undefined && { cwd: resolve(folder, cwd) }),
    ...(!sandbox && { isOutside: true }),
    ...(folders !== undefined && { folders: folders.map((one: string) => resolve(folder, one)) }),
  }];
}

function readTexts(
  field: string,
  value: unknown,
  refuse: (what: string) => never,
): Readonly<Record<string, string>> {
  const texts = Object.entries(asRecord(value) ?? refuse(`${field} must be an object of texts`));
  for (const [name, text] of texts) {
    if (typeof text !== "string") return refuse(`${field}.${name} must be a text`);
    if (text.includes("${")) {
      refuse(`${field}.${name} holds \${…}, which is not replaced here: write the value itself`);
    }
  }
  return Object.fromEntries(texts) as Record<string, string>;
}

function isWhole(value: unknown): value is number {
  return Number.isInteger(value);
}
