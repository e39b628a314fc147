import { entryPoints, type Member, published, root } from "./repository.ts";

interface Declaration {
  readonly kind: string;
  readonly jsDoc?: { readonly tags?: readonly { readonly kind: string }[] };
  readonly def?: { readonly params?: readonly Parameter[]; readonly returnType?: unknown };
}

/** A parameter; `left` is the parameter of one with a default. */
interface Parameter {
  readonly tsType?: unknown;
  readonly left?: Parameter;
}

export interface PublicSymbol {
  readonly name: string;
  readonly declarations: readonly Declaration[];
}

export interface PublicApi {
  readonly name: string;
  readonly symbols: readonly PublicSymbol[];
}

/** Returns the names exported by public or `internal` entry points of the published packages. */
export async function readPublicApi({ internal }: { readonly internal: boolean }): Promise<PublicApi[]> {
  const paths = (member: Member) =>
    [...entryPoints(member)].flatMap(([entry, path]) =>
      /\/internal\b/.test(entry) === internal ? [path] : []
    );
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["doc", "--json", ...published.flatMap(paths)],
    cwd: root,
  }).output();
  const { nodes }: {
    readonly nodes: Readonly<Record<string, { readonly symbols: readonly PublicSymbol[] }>>;
  } = JSON.parse(new TextDecoder().decode(stdout));
  return published.map((member) => {
    const symbols = paths(member).flatMap((path) => nodes[new URL(path, root).href]?.symbols ?? []);
    const byName = new Map(symbols.map((symbol) => [symbol.name, symbol]));
    return { name: member.name, symbols: [...byName.values()].sort((a, b) => a.name < b.name ? -1 : 1) };
  });
}

/** Types derived from function signatures, which readers would have to look up. */
const DERIVED = ["Parameters", "ReturnType", "ConstructorParameters"];

/**
 * Returns faults in a package's documentation: a name that differs from another only in case, a function without an
 * `@example`, an option or result without a named type, a derived type.
 */
export function publicApiFaults({ name: packageName, symbols }: PublicApi): string[] {
  const faults: string[] = [];
  const add = (name: string, fault: string) => faults.push(`${packageName}: ${name} ${fault}.`);
  const byCase = Map.groupBy(symbols, ({ name }) => name.toLowerCase());
  for (const [one, other] of byCase.values()) {
    if (other) add(one!.name, `and ${other.name} differ only in case`);
  }
  for (const { name, declarations } of symbols) {
    const functions = declarations.filter(({ kind }) => kind === "function");
    const hasExample = functions.some(({ jsDoc }) => jsDoc?.tags?.some(({ kind }) => kind === "example"));
    if (functions.length > 0 && !hasExample) add(name, "has no @example");
    for (const { def: { params = [], returnType } = {} } of functions) {
      const options = params.map(({ tsType, left }) => tsType ?? left?.tsType);
      if (options.some((type) => hasKind(type, "typeLiteral"))) add(name, "has an anonymous option type");
      if (hasKind(returnType, "typeLiteral")) add(name, "has an anonymous result type");
    }
    const derived = DERIVED.find((type) => hasName(declarations, type));
    if (derived) add(name, `is declared by ${derived}<>`);
  }
  return faults;
}

function hasKind(type: unknown, kind: string): boolean {
  return someObject(type, (part) => part.kind === kind, (part) => part.kind === "fnOrConstructor");
}

function hasName(value: unknown, typeName: string): boolean {
  return someObject(value, (part) => part.typeName === typeName);
}

function someObject(
  value: unknown,
  holds: (part: Readonly<Record<string, unknown>>) => boolean,
  isSkipped: (part: Readonly<Record<string, unknown>>) => boolean = () => false,
): boolean {
  if (typeof value !== "object" || value === null) return false;
  const part = value as Readonly<Record<string, unknown>>;
  if (isSkipped(part)) return false;
  return holds(part) || Object.values(part).some((inner) => someObject(inner, holds, isSkipped));
}
