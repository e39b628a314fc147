/**
 * The regular expression (as RE2 and others write it) of a whole relative path that a glob of `*`, `?`, `[…]`, `{…,…}`
 * and `**` stands for. A part between slashes that leaves a bracket, a brace or a backslash open is taken as it stands.
 */
export function globPattern(glob: string): string {
  const parts = glob.replace(/\/+$/, "").split(/\/+/);
  const last = parts.length - 1;
  const patterns = parts.map((part, at) => {
    if (part === "**") return at < last ? "(?:[^/]*/)*" : "(?:[^/]*/)*[^/]*";
    return (partPattern(part) ?? literal(part)) + (at < last ? "/" : "");
  });
  return `^${patterns.join("")}$`;
}

/** A set of characters, and what stands in it. A bracket that stands first belongs to it. */
const SET = /\[([!^]?)((?:\]|\[:\w+:\]|\\[^]|[^\\\]])(?:\[:\w+:\]|\\[^]|[^\\\]])*)\]/y;

/** `undefined` if something is left open. */
function partPattern(part: string): string | undefined {
  let pattern = "";
  let braces = 0;
  for (let at = 0; at < part.length; at++) {
    const char = part[at]!;
    if (char === "\\") {
      if (++at === part.length) return undefined;
      pattern += literal(part[at]!);
    } else if (char === "[") {
      SET.lastIndex = at;
      const [whole, first, characters = ""] = SET.exec(part) ?? [];
      if (whole === undefined) return undefined;
      const sign = first === "!" ? "^" : first === "^" ? "\\^" : "";
      pattern += `[${sign}${characters.replaceAll(/\[:\w+:\]|\\([^])|[\][^]/g, inSet)}]`;
      at += whole.length - 1;
    } else if (char === "*") {
      while (part[at + 1] === "*") at++;
      pattern += "[^/]*";
    } else if (char === "?") {
      pattern += ".";
    } else if (char === "{") {
      braces++;
      pattern += "(?:";
    } else if (char === "}" && braces > 0) {
      braces--;
      pattern += ")";
    } else {
      pattern += char === "," && braces > 0 ? "|" : literal(char);
    }
  }
  return braces === 0 ? pattern : undefined;
}

/** A class such as `[:digit:]` as it is, else the character itself. */
function inSet(found: string, escaped: string = found): string {
  return found.startsWith("[:") || /\w/.test(escaped) ? escaped : `\\${escaped}`;
}

function literal(text: string): string {
  return text.replaceAll(/[\\^$.|?*+()[\]{}\/-]/g, "\\$&");
}
