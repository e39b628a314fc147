import type { Tool } from "@tare/messages";
import { isWithin } from "../path_within.ts";
import { readFound } from "./found_file.ts";
import { realPath } from "./real_path.ts";
import { namesIn } from "./workplace.ts";

/** Returns `read_skill`, which reads skills outside of the workspace; `undefined` if these folders have none. */
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
      const isThere = there.some((folder) => isWithin(realPath(given), realPath(folder)));
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
