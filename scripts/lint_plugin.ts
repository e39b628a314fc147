/**
 * Lint rules of this repository: who may import whom (the package table of ARCHITECTURE.md), and what the pure
 * packages may not name.
 *
 * @module
 */

/** The package table of ARCHITECTURE.md: each package and the packages of ours that it may import. */
export const PACKAGE_TABLE: Readonly<Record<string, readonly string[]>> = {
  messages: [],
  context: ["messages"],
  prune: ["messages"],
  schemas: ["messages"],
  planner: ["messages", "context", "prune", "schemas"],
  wire: ["messages"],
  loop: ["messages", "wire"],
  tools: ["messages", "prune"],
  store: ["messages", "prune"],
  gateway: ["messages", "prune", "planner", "wire", "store"],
  simulator: ["messages", "planner", "wire"],
  server: ["messages", "context", "prune", "schemas", "planner", "wire", "loop", "tools", "store"],
  app: [
    "messages",
    "context",
    "prune",
    "schemas",
    "planner",
    "wire",
    "loop",
    "tools",
    "store",
    "gateway",
    "simulator",
    "server",
  ],
};

/** Packages without clock, file, network, environment or randomness. */
export const PURE_PACKAGES: readonly string[] = [
  "messages",
  "context",
  "prune",
  "schemas",
  "planner",
  "wire",
];

const IMPURE_GLOBALS = ["Deno", "process", "Date", "performance", "fetch", "setTimeout", "setInterval"];
const IMPURE_MEMBERS = ["Math.random", "crypto.randomUUID", "crypto.getRandomValues"];

/** The package that a file belongs to, and the file's path inside it; nothing for files outside `packages/`. */
function place(filename: string): { readonly name: string; readonly path: string } | undefined {
  const match = /\/packages\/([^/]+)\/(.+)$/.exec(filename.replaceAll("\\", "/"));
  return match?.[1] && match[2] ? { name: match[1], path: match[2] } : undefined;
}

function isTest(path: string): boolean {
  return /_(test|bench)\.ts$/.test(path);
}

/** Why a file of a package may not import this specifier; nothing if it may. */
function importFault(name: string, path: string, specifier: string): string | undefined {
  const ours = /^@tare\/([^/]+)/.exec(specifier)?.[1];
  if (ours !== undefined && ours !== name && !PACKAGE_TABLE[name]?.includes(ours)) {
    return `Package ${name} may not import @tare/${ours}: ARCHITECTURE.md's table allows it ` +
      `${PACKAGE_TABLE[name]?.join(", ") || "none of ours"}.`;
  }
  if (!specifier.startsWith(".")) return undefined;
  const depth = path.split("/").length - 1;
  const climbs = specifier.split("/").filter((part) => part === "..").length;
  if (climbs <= depth || (isTest(path) && specifier.includes("/tests/"))) return undefined;
  return `${specifier} leaves the package: import another package by its name.`;
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
            message: `Package ${at.name} is pure and may not name ${what}: hand it in.`,
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
  },
};

export default plugin;
