/** A Markdown file in two parts. */
export interface FrontMatter {
  /** What its head says, as far as that is text. */
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
}

const HEAD = /^\uFEFF?---[ \t]*\r?\n((?:[^\n]*\n)*?)---[ \t]*(?:\r?\n|$)/;

/** Parts a file from the YAML between two lines of `---` in front of it, if there is some. */
export async function readFrontMatter(text: string): Promise<FrontMatter> {
  const [head, yaml = ""] = HEAD.exec(text) ?? [];
  if (head === undefined) return { fields: {}, body: text };
  return { fields: await fieldsOf(yaml), body: text.slice(head.length) };
}

async function fieldsOf(yaml: string): Promise<Readonly<Record<string, string>>> {
  // Most folders have no such file.
  const { parse } = await import("yaml");
  try {
    const fields: unknown = parse(yaml, { maxAliasCount: 0, logLevel: "error" });
    const isMap = typeof fields === "object" && fields !== null && !Array.isArray(fields);
    if (isMap) {
      return Object.fromEntries(
        Object.entries(fields).filter((field): field is [string, string] => typeof field[1] === "string"),
      );
    }
  } catch {
    // Descriptions hold colons, which people don't quote and YAML doesn't take: the next line does.
  }
  return Object.fromEntries(
    [...yaml.matchAll(/^(\w[\w-]*):[ \t]*(\S.*?)[ \t]*\r?$/gm)].map(([, name, value]) => [name, value]),
  );
}
