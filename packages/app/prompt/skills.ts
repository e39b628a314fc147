import { join } from "@std/path";
import type { Tool } from "@tare/messages";
import { realPath } from "../settings/real_path.ts";
import { readFrontMatter } from "./front_matter.ts";
import { isIn, readFound } from "./read_found.ts";

/** Where skills lie, in a project or a home folder. */
export const SKILL_FOLDERS: readonly string[] = [".agents/skills", join(".claude", "skills")];

/** So many skills are named, with so long a description each, and so much is told of all together, in characters. */
const MOST_SKILLS = 100;
const MOST_OF_A_SKILL = 300;
const MOST_OF_ALL = 8 * 1024;

/** A folder of skills that is looked at. */
export interface SkillFolder {
  readonly folder: string;
  /** Where links of a project may lead; absent for the person's own. */
  readonly within?: string | undefined;
  readonly hidden?: string | undefined;
}

/** What each skill of these folders is for, a text for each folder that has some. What stands last has room first. */
export async function listSkills(
  folders: readonly SkillFolder[],
): Promise<readonly { readonly path: string; readonly text: string }[]> {
  const found = await Promise.all(folders.map(async (one) => ({ ...one, lines: await linesOf(one) })));
  let room = MOST_OF_ALL;
  const told: { readonly path: string; readonly text: string }[] = [];
  for (const { folder, lines } of found.reverse()) {
    if (lines.length === 0) continue;
    const named: string[] = [];
    for (const line of lines.slice(0, MOST_SKILLS)) {
      if (line.length > room) break;
      room -= line.length;
      named.push(line);
    }
    const more = lines.length - named.length;
    const path = JSON.stringify(folder);
    const cut = more > 0 ? ` cut="${more} more aren't named"` : "";
    told.unshift({ path: folder, text: [`<skills path=${path}${cut}>`, ...named, "</skills>"].join("\n") });
  }
  return told;
}

async function linesOf({ folder, within, hidden }: SkillFolder): Promise<readonly string[]> {
  const lines = await Promise.all(
    namesIn(folder).map(async (name) => {
      const file = await readFound(join(folder, name, "SKILL.md"), { within, hidden });
      if (!file) return [];
      if ("why" in file) return [`- ${oneLine(name)}: not read, because ${file.why}`];
      const { fields } = await readFrontMatter(new TextDecoder().decode(file.bytes));
      return [`- ${oneLine(name)}: ${oneLine(fields.description ?? fields.name ?? "")}`];
    }),
  );
  return lines.flat();
}

function namesIn(folder: string): readonly string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  } catch {
    // Most folders have none; and where the server may not look, it has none.
    return [];
  }
}

/** It stays in its line, and can't end the part that it stands in. */
function oneLine(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ").replaceAll("<", "&lt;");
  return line.length <= MOST_OF_A_SKILL ? line : `${line.slice(0, MOST_OF_A_SKILL - 1)}…`;
}

/**
 * `read_skill`: reads files of skills that lie outside of the workspace, where the file tools don't reach. Nothing if there
 * are none now.
 *
 * @param folders The folders of such skills.
 */
export function skillTool(folders: readonly string[]): Tool | undefined {
  const there = folders.filter((folder) => namesIn(folder).length > 0);
  if (there.length === 0) return undefined;
  return {
    definition: {
      type: "function",
      function: {
        name: "read_skill",
        description: "Reads a file of a skill that lies outside of the workspace.",
        parameters: {
          type: "object",
          properties: { path: { type: "string", description: "Whole path, such as that of its SKILL.md." } },
          required: ["path"],
          additionalProperties: false,
        },
      },
    },
    stance: "rederivable",
    reads: "path",
    async run({ path }) {
      const given = String(path);
      const isThere = there.some((folder) => isIn(realPath(given), realPath(folder)));
      const file = isThere ? await readFound(given, {}) : undefined;
      if (!file || "why" in file) {
        const why = file?.why ?? (isThere ? "it does not exist" : `it lies in none of ${there.join(", ")}`);
        return { content: `Cannot read ${given}: ${why}.`, error: true };
      }
      const { bytes, size } = file;
      const isCut = bytes.length < size;
      const text = new TextDecoder().decode(bytes, { stream: isCut });
      return isCut ? `${text}\n[only its first ${bytes.length} of ${size} bytes]` : text;
    },
  };
}
