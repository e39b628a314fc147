/**
 * Lint rules of this repository: who may import whom (the package table of ARCHITECTURE.md), what the pure packages may
 * not name, and where the names of protocols and providers may appear.
 *
 * @module
 */

/** Package table of ARCHITECTURE.md: the Tare packages that each package may import. */
export const PACKAGE_TABLE: Readonly<Record<string, readonly string[]>> = {
  messages: [],
  tiktoken: ["messages"],
  context: ["messages"],
  prune: ["messages"],
  schemas: ["messages"],
  planner: ["messages", "context", "prune", "schemas"],
  wire: ["messages"],
  adapters: ["messages", "prune", "planner"],
  loop: ["messages", "wire"],
  tools: ["messages", "prune", "wire", "loop"],
  session: ["messages", "prune", "planner"],
  gateway: ["messages", "prune", "schemas", "planner", "wire", "session"],
  simulator: ["messages", "tiktoken", "context", "prune", "planner", "wire"],
  server: [
    "messages",
    "context",
    "prune",
    "schemas",
    "planner",
    "wire",
    "loop",
    "tools",
    "session",
    "gateway",
  ],
  page: ["messages", "loop", "session", "server"],
  cli: ["messages", "tiktoken", "planner", "wire", "loop", "tools", "session", "simulator", "server"],
  app: [
    "messages",
    "tiktoken",
    "context",
    "prune",
    "schemas",
    "planner",
    "wire",
    "adapters",
    "loop",
    "tools",
    "session",
    "gateway",
    "simulator",
    "server",
    "page",
    "cli",
  ],
};

/** Packages without clock, file, network, environment or randomness. */
export const PURE_PACKAGES: readonly string[] = [
  "messages",
  "tiktoken",
  "context",
  "prune",
  "schemas",
  "planner",
  "wire",
];

/** Large dependencies that few packages import; tests and benchmarks may, to count exactly and to validate. */
const FOR_TESTS: readonly string[] = ["tiktoken", "loop"];

/** Packages for Deno, Node and Bun, which use the system through `node:` modules. */
export const PORTABLE_PACKAGES: readonly string[] = [
  "loop",
  "tools",
  "session",
  "gateway",
  "simulator",
  "server",
];

const DENO_PROGRAMS = "tools/sandbox/network/";

const IMPURE_GLOBALS = ["Deno", "process", "Date", "performance", "fetch", "setTimeout", "setInterval"];
const IMPURE_MEMBERS = ["Math.random", "crypto.randomUUID", "crypto.getRandomValues"];

/**
 * Fields and types of only one protocol, and the protocol's folder. Names of Chat Completions, the common format, and names
 * shared by several protocols are allowed anywhere.
 */
export const PROTOCOL_NAMES: Readonly<Record<string, readonly string[]>> = {
  "wire/responses/": [
    "call_id",
    "content_index",
    "encrypted_content",
    "function_call_output",
    "input_text",
    "input_tokens_details",
    "max_output_tokens",
    "output_index",
    "output_text",
    "output_tokens_details",
    "previous_response_id",
  ],
  "wire/anthropic/": [
    "anthropic-version",
    "cache_control",
    "cache_creation",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "content_block",
    "context_management",
    "ephemeral_1h_input_tokens",
    "ephemeral_5m_input_tokens",
    "input_json_delta",
    "input_schema",
    "partial_json",
    "redacted_thinking",
    "signature_delta",
    "stop_reason",
    "tool_use",
    "tool_use_id",
    "user_id",
    "x-api-key",
  ],
};

/** Files that may name another protocol's fields, with the reason. */
const PROTOCOL_EXCEPTIONS: readonly string[] = [
  // Chat Completions providers report cache usage with other protocols' names.
  "wire/chat/chat_completions.ts",
  // The agent as a model accepts Responses requests and describes them in its OpenAPI document.
  "server/as_model/",
  // It sends an agent's request, to check the key.
  "cli/agents/installation.ts",
  // Providers' validation rules, independent of the code that writes requests.
  "simulator/dialects.ts",
  // Frameworks share some names with protocols.
  "adapters/",
];

/** Files that may name providers: data on providers and agents, connecting agents to a server, provider-specific protocols. */
export const PROVIDER_PLACES: readonly string[] = [
  "planner/providers.ts",
  "planner/agents.ts",
  "simulator/economy/assumptions.ts",
  // Validation rules of each provider.
  "simulator/dialects.ts",
  // Locations of agents' logs.
  "cli/history/",
  "wire/",
  "loop/openai/",
  "loop/anthropic/",
  "cli/agents/",
  // Frameworks name provider options after providers.
  "adapters/cache_breakpoints.ts",
];

const PROVIDER = /openai|anthropic|claude|deepseek|gemini|mistral|groq|xai\b/;

const CLIENT_USERS: readonly string[] = ["page", "cli"];

/** Returns a file's package and its path in it; undefined outside `packages/`. */
function place(filename: string): { readonly name: string; readonly path: string } | undefined {
  const match = /\/packages\/([^/]+)\/(.+)$/.exec(filename.replaceAll("\\", "/"));
  return match?.[1] && match[2] ? { name: match[1], path: match[2] } : undefined;
}

function isTest(path: string): boolean {
  return /_(test|bench)\.ts$/.test(path);
}

/** Returns why a package's file may not import a specifier; undefined if it may. */
function importFault(name: string, path: string, specifier: string): string | undefined {
  const ours = /^@tare\/([^/]+)/.exec(specifier)?.[1];
  const isFree = isTest(path) && FOR_TESTS.includes(ours ?? "");
  if (ours !== undefined && ours !== name && !PACKAGE_TABLE[name]?.includes(ours) && !isFree) {
    return `Package ${name} may not import @tare/${ours}: ARCHITECTURE.md's table allows it ` +
      `${PACKAGE_TABLE[name]?.join(", ") || "none of ours"}.`;
  }
  const isTelemetry = name === "session" && path === "telemetry.ts";
  if (specifier.startsWith("@opentelemetry/") && !isTelemetry && !isTest(path)) {
    return `Package ${name} may not import ${specifier}: only @tare/session/telemetry uses it.`;
  }
  if (!specifier.startsWith(".")) return undefined;
  // Its types are inferred from values, which can't be published.
  const isClient = specifier.endsWith("/server/client.ts") && CLIENT_USERS.includes(name);
  if (isClient) return undefined;
  const depth = path.split("/").length - 1;
  const climbs = specifier.split("/").filter((part) => part === "..").length;
  if (climbs <= depth || (isTest(path) && specifier.includes("/tests/"))) return undefined;
  return `${specifier} leaves the package: import another package by its name.`;
}

/** How a comment doesn't begin: its first word is a verb, or the noun that it describes. */
const OPENINGS = /^(?:What|Who|Whoever|Whatever|So many|So much|Of)\b/;

/** Words without a meaning in this field, and the words to write instead. */
const WORDS: Readonly<Record<string, string>> = {
  nobody: "the passive",
  somebody: "the user, the caller or the client",
  anybody: "any user, caller or client",
  whoever: "the user, the caller or the client",
  anew: "again",
  beside: "next to or in addition to",
  "behind which": "after which",
};

/** Returns why a comment isn't standard English; `undefined` if it is. */
function commentFault(comment: string): string | undefined {
  const text = comment.replace(/^[*\s]+/, "").replaceAll(/`[^`]*`|\{@link[^}]*\}/g, "");
  const [opening] = OPENINGS.exec(text) ?? [];
  if (opening !== undefined) return `A comment begins with a verb or a noun, not with "${opening}".`;
  const [word] = Object.keys(WORDS).filter((one) => new RegExp(`\\b${one}\\b`, "i").test(text));
  return word === undefined ? undefined : `Instead of "${word}", write ${WORDS[word]}.`;
}

type Visitor = Deno.lint.LintVisitor;

/** Calls `check` with every module specifier of the file: imports, re-exports and dynamic imports. */
function eachSpecifier(check: (specifier: string, node: Deno.lint.Node) => void): Visitor {
  const look = (source: Deno.lint.Node | null | undefined) => {
    if (source?.type === "Literal" && typeof source.value === "string") check(source.value, source);
  };
  return {
    ImportDeclaration: (node) => look(node.source),
    ExportAllDeclaration: (node) => look(node.source),
    ExportNamedDeclaration: (node) => look(node.source),
    ImportExpression: (node) => look(node.source),
  };
}

const plugin: Deno.lint.Plugin = {
  name: "tare",
  rules: {
    "package-table": {
      create(context) {
        const at = place(context.filename);
        if (!at) return {};
        return eachSpecifier((specifier, node) => {
          const message = importFault(at.name, at.path, specifier);
          if (message) context.report({ node, message });
        });
      },
    },
    "pure-packages": {
      create(context) {
        const at = place(context.filename);
        if (!at || !PURE_PACKAGES.includes(at.name) || isTest(at.path)) return {};
        const refuse = (node: Deno.lint.Node, what: string) =>
          context.report({
            node,
            message: `Package ${at.name} is pure and may not name ${what}: pass it in.`,
          });
        return {
          ...eachSpecifier((specifier, node) => {
            if (specifier.startsWith("node:")) refuse(node, specifier);
          }),
          Identifier(node) {
            if (!IMPURE_GLOBALS.includes(node.name)) return;
            const { parent } = node;
            const isMember = parent.type === "MemberExpression" && parent.property === node &&
              !parent.computed;
            const isKey = parent.type === "Property" && parent.key === node && !parent.computed;
            if (!isMember && !isKey) refuse(node, node.name);
          },
          MemberExpression(node) {
            if (node.object.type !== "Identifier" || node.property.type !== "Identifier") return;
            const member = `${node.object.name}.${node.property.name}`;
            if (IMPURE_MEMBERS.includes(member)) refuse(node, member);
          },
        };
      },
    },
    "portable-packages": {
      create(context) {
        const at = place(context.filename);
        if (!at || !PORTABLE_PACKAGES.includes(at.name) || isTest(at.path)) return {};
        if (`${at.name}/${at.path}`.startsWith(DENO_PROGRAMS)) return {};
        const refuse = (node: Deno.lint.Node, what: string) =>
          context.report({
            node,
            message: `Package ${at.name} runs on Node and Bun too, which lack ${what}.`,
          });
        return {
          Identifier(node) {
            if (node.name === "Deno") refuse(node, node.name);
          },
          VariableDeclaration(node) {
            if (node.kind.endsWith("using")) refuse(node, node.kind);
          },
        };
      },
    },
    "protocol-names": {
      create(context) {
        const at = place(context.filename);
        if (!at || isTest(at.path)) return {};
        const path = `${at.name}/${at.path}`;
        if (PROTOCOL_EXCEPTIONS.some((home) => path.startsWith(home))) return {};
        const places = new Map<string, string>();
        for (const [home, names] of Object.entries(PROTOCOL_NAMES)) {
          if (!path.startsWith(home)) { for (const name of names) places.set(name, home); }
        }
        const look = (node: Deno.lint.Node, name: unknown) => {
          const home = typeof name === "string" && places.get(name);
          if (home) context.report({ node, message: `${name} may be named only in packages/${home}.` });
        };
        return {
          Identifier: (node) => look(node, node.name),
          Literal: (node) => look(node, node.value),
        };
      },
    },
    "stated-needs": {
      create(context) {
        const path = context.filename.replaceAll("\\", "/");
        const refuse = (node: Deno.lint.Node, message: string) => context.report({ node, message });
        return {
          ...eachSpecifier((specifier, node) => {
            if (!/^(npm:)?fast-check\b/.test(specifier) || path.endsWith("/tests/cases.ts")) return;
            refuse(
              node,
              "Import fast-check from tests/cases.ts, which sets the number of cases and the seed.",
            );
          }),
          Property(node) {
            const { key, parent } = node;
            const options = parent.parent;
            if (key.type !== "Identifier" || key.name !== "ignore" || options?.type !== "CallExpression") {
              return;
            }
            const { callee } = options;
            const called = callee.type === "MemberExpression" && callee.property.type === "Identifier"
              ? callee.property.name
              : "";
            if (called === "test" || called === "step") {
              refuse(node, "State why a test is ignored: needs(NEED, name) of tests/needs.ts.");
            }
          },
        };
      },
    },
    "standard-english": {
      create(context) {
        return {
          Program() {
            for (const comment of context.sourceCode.getAllComments()) {
              const message = commentFault(comment.value);
              if (message !== undefined) context.report({ range: comment.range, message });
            }
          },
        };
      },
    },
    "provider-names": {
      create(context) {
        const at = place(context.filename);
        if (!at || isTest(at.path)) return {};
        const path = `${at.name}/${at.path}`;
        if (PROVIDER_PLACES.some((home) => path.startsWith(home))) return {};
        return {
          Literal(node) {
            const isSpecifier = /^(Import|Export)/.test(node.parent.type);
            // Sentences may name providers.
            if (isSpecifier || /\s/.test(node.raw) || !PROVIDER.test(node.raw)) return;
            const message = `${node.raw} names a provider: data on providers belongs in packages/${
              PROVIDER_PLACES[0]
            }.`;
            context.report({ node, message });
          },
        };
      },
    },
  },
};

export default plugin;
