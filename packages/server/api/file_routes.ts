import { Type } from "typebox";
import type { AgentOptions } from "../agent_options.ts";
import { judgeBy } from "../approvals/rules.ts";
import { errorResponses, HttpError } from "../http/http_error.ts";
import { route } from "../http/route.ts";
import { closed } from "../http/schema.ts";

/** The tool by which the model lists files: people see what it would, and nothing else. */
const LISTS = "list_files";

/** The route by which files of the workspace are found, for who writes of them. */
export function fileRoutes({ tools, approvals = {} }: Pick<AgentOptions, "tools" | "approvals">) {
  return [
    route({
      method: "GET",
      path: "/v1/agent/files",
      operationId: "findFiles",
      who: "key",
      begins: true,
      summary:
        "Finds files of the workspace by a part of their path, as the tool list_files shows them: none that is hidden, " +
        "ignored by git or denied by the server's rules.",
      query: {
        search: Type.String({
          maxLength: 200,
          default: "",
          description:
            "A part of the name, in either case; with a slash of the path. Default: what lies in the workspace's folder.",
        }),
        limit: Type.Integer({
          minimum: 1,
          maximum: 100,
          default: 20,
          description: "Most files in the answer.",
        }),
      },
      responses: {
        200: {
          description:
            "Paths from the workspace, those first whose name begins so; a folder's ends in a slash.",
          content: {
            "application/json": closed(
              { files: Type.Array(Type.String()), hasMore: Type.Boolean() },
              "Files",
            ),
          },
        },
        ...errorResponses({
          404: "The workspace's folder can't be read.",
          501: "The agent lists no files, or not unasked, by a rule of the server.",
        }),
      },
      async answer({ query: { search, limit }, request: { signal } }) {
        const tool = tools.find(({ definition }) => definition.function.name === LISTS);
        if (!tool) {
          throw new HttpError(501, "not_supported", `Cannot list files: the agent has no tool ${LISTS}.`);
        }
        const args = search === "" ? {} : { glob: globOf(search) };
        const { rules = [], workspace = "/" } = approvals;
        const judgement = await judgeBy({ lists: [rules], always: [], workspace })({ tool, args });
        if (judgement.decision !== "allow") {
          throw new HttpError(
            501,
            "not_supported",
            `Cannot list files: a rule of the server says ${judgement.decision} to ${LISTS}.`,
          );
        }
        const { allows } = judgement;
        const told = await tool.run(args, { signal, progress() {}, ...(allows && { allows }) });
        if (typeof told !== "string" && told.error) throw new HttpError(404, "not_found", told.content);
        const [, ...rows] = (typeof told === "string" ? told : told.content).split("\n");
        const found = rows.flatMap(pathOf).toSorted((a, b) => rank(a, search) - rank(b, search));
        return { json: { files: found.slice(0, limit), hasMore: found.length > limit } };
      },
    }),
  ];
}

/** The path of a row that names a file, with its size, or a folder. */
function pathOf(row: string): readonly string[] {
  const [, file] = /^(.*)\t\d+$/.exec(row) ?? [];
  return file !== undefined ? [file] : row.endsWith("/") ? [row] : [];
}

/** What begins with what was asked for comes first, then what has it nearest to its beginning. */
function rank(path: string, search: string): number {
  const [name, asked] = [path, search].map((text) =>
    text.toLowerCase().slice(text.lastIndexOf("/", text.length - 2) + 1)
  );
  return name!.indexOf(asked!) * 10_000 + path.length;
}

/** A glob for paths that have this text, in either case: without a slash in their name. */
function globOf(search: string): string {
  const text = Array.from(search, (char) => {
    const [lower, upper] = [char.toLowerCase(), char.toUpperCase()];
    if (lower !== upper && lower.length === upper.length) return `[${lower}${upper}]`;
    return /[\\*?[\]{},!^]/.test(char) ? `\\${char}` : char;
  }).join("");
  return search.includes("/") ? `**/*${text}*` : `*${text}*`;
}
