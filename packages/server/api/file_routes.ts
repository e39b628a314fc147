import { Keys } from "@tare/session";
import { type Checkpoints, UndoRefused } from "@tare/tools/undo";
import { Type } from "typebox";
import type { AgentOptions } from "../agent_options.ts";
import { judgeBy } from "../approvals/rules.ts";
import { HttpError, notFound, notSupported } from "../http/http_error.ts";
import { json, route } from "../http/route.ts";
import { closed, count, limitOf, text } from "../http/schema.ts";
import type { AgentSession } from "../sessions/agent_session.ts";
import { lengthBefore } from "../sessions/history.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { SESSION, sessionBody } from "./session_body.ts";

/** The model's tool for listing files: users see the same files. */
const LISTS = "list_files";

export function fileRoutes({ tools, approvals = {} }: Pick<AgentOptions, "tools" | "approvals">) {
  return [
    route({
      method: "GET",
      path: "/agent/files",
      operationId: "findFiles",
      who: "key",
      begins: true,
      summary: "Finds files of the workspace by a part of their path, as the tool list_files lists them: " +
        "without hidden files, files ignored by git and files that the server's rules deny.",
      query: {
        search: Type.String({
          maxLength: 200,
          default: "",
          description:
            "Part of the name, in either case; with a slash, of the path. Default: the top of the workspace.",
        }),
        limit: limitOf(100, 20, "Most files in the response."),
      },
      responses: {
        200: json(
          "Paths relative to the workspace, matches at the start of the name first; a folder's ends in " +
            "a slash.",
          closed(
            { files: Type.Array(Type.String()), hasMore: Type.Boolean() },
            "Files",
          ),
        ),
        404: "The workspace's folder can't be read.",
        501: "The agent can't list files, or needs approval for it by a rule.",
      },
      async answer({ query: { search, limit }, signal }) {
        const tool = tools.find(({ definition }) => definition.function.name === LISTS);
        if (!tool) {
          throw notSupported(`Cannot list files: the agent has no tool ${LISTS}.`);
        }
        const args = search === "" ? {} : { glob: globOf(search) };
        const { rules = [], workspace = "/" } = approvals;
        const judgement = await judgeBy({ lists: [rules], always: [], workspace })({ tool, args });
        if (judgement.decision !== "allow") {
          throw notSupported(
            `Cannot list files: the server's rule for ${LISTS} is ${judgement.decision}.`,
          );
        }
        const { allows } = judgement;
        const result = await tool.run(args, { signal, progress() {}, ...(allows && { allows }) });
        if (typeof result !== "string" && result.error) throw notFound(result.content);
        const [, ...rows] = (typeof result === "string" ? result : result.content).split("\n");
        const found = rows.flatMap(pathOf).toSorted((a, b) => rank(a, search) - rank(b, search));
        return { json: { files: found.slice(0, limit), hasMore: found.length > limit } };
      },
    }),
  ];
}

function pathOf(row: string): readonly string[] {
  const [, file] = /^(.*)\t\d+$/.exec(row) ?? [];
  return file !== undefined ? [file] : row.endsWith("/") ? [row] : [];
}

/** Names that begin with the search text come first. */
function rank(path: string, search: string): number {
  const [name, query] = [path, search].map((text) =>
    text.toLowerCase().slice(text.lastIndexOf("/", text.length - 2) + 1)
  );
  return name!.indexOf(query!) * 10_000 + path.length;
}

/** Returns a glob for paths that contain this text, in either case; without a slash, in their name. */
function globOf(search: string): string {
  const text = Array.from(search, (char) => {
    const [lower, upper] = [char.toLowerCase(), char.toUpperCase()];
    if (lower !== upper && lower.length === upper.length) return `[${lower}${upper}]`;
    return /[\\*?[\]{},!^]/.test(char) ? `\\${char}` : char;
  }).join("");
  return search.includes("/") ? `**/*${text}*` : `*${text}*`;
}

type PutBack = Awaited<ReturnType<Checkpoints["undo"]>>;

const FILES = Type.Array(
  closed({
    path: text("Path relative to the workspace."),
    change: Type.Enum(["created", "changed", "deleted"]),
  }, "ChangedFile"),
);

const NOT_COVERED = Type.Array(Type.String(), {
  description:
    "Changes that an undo doesn't cover, a sentence each: by commands outside the workspace, or of " +
    "files without checkpoints.",
});

const TURN = count("Number of the last event before the turn.");

const FORCE = Type.Optional(Type.Boolean({
  description:
    "Whether to overwrite files that were changed since. Default: no, and the error names them all.",
}));

const UNDO = closed(
  {
    turn: Type.Optional(
      count(
        "Turn to return to: changes of later turns are undone too. Default: the newest turn that " +
          "changed files.",
      ),
    ),
    conversation: Type.Optional(Type.Boolean({
      description: "Whether to create a session that continues from before that turn. Default: no.",
    })),
    force: FORCE,
  },
  "Undo",
  { turn: 12 },
);

const PUT_BACK = {
  turns: Type.Array(TURN, { description: "Turns whose changes were undone or restored, the oldest first." }),
  files: FILES,
  notCovered: NOT_COVERED,
};

const REFUSED = {
  404: "There is no such session, or no such turn in it.",
  409: "There is nothing to undo on this machine, files were changed since, a call is changing files, a " +
    "turn is running or an approval is pending. Nothing has changed.",
  501: "The server has no checkpoints.",
};

export function undoRoutes(sessions: Sessions, checkpoints: Omit<Checkpoints, "close"> | undefined) {
  const requireCheckpoints = () => {
    if (checkpoints) return checkpoints;
    throw notSupported("Cannot undo: the server has no checkpoints.");
  };
  return [
    route({
      method: "GET",
      path: "/sessions/{id}/changes",
      operationId: "listChanges",
      summary: "Lists the file changes of a session's turns that are stored on this machine.",
      responses: {
        200: json(
          "Turns with file changes, the oldest first.",
          closed({
            turns: Type.Array(closed({
              turn: TURN,
              atMs: Type.Number({
                description: "Time of its last change, in milliseconds since the epoch.",
              }),
              files: FILES,
              isUndone: Type.Boolean(),
              notCovered: NOT_COVERED,
            }, "TurnChanges")),
          }),
        ),
        404: REFUSED[404],
        501: REFUSED[501],
      },
      async answer({ path: { id } }) {
        const session = await sessions.get(id);
        const turns = await requireCheckpoints().changes(session.id);
        return { json: { turns: turns.map((turn) => ({ ...turn, ...arrays(turn) })) } };
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/undo",
      operationId: "undoTurn",
      who: "approve",
      summary:
        "Restores the files before a turn, and notifies the model, or continues in a new session from " +
        "before it.",
      body: UNDO,
      responses: {
        200: json(
          "The undone changes, and the new session if requested.",
          closed({ ...PUT_BACK, session: Type.Optional(SESSION) }),
        ),
        ...REFUSED,
      },
      async answer({ path: { id }, body: { turn, conversation = false, force }, caller, keep }) {
        const files = requireCheckpoints();
        const session = await sessions.get(id);
        const { settings: { instructions } } = session;
        const lengthOf = (turn: number) => lengthBefore(id, { turn, instructions, store: sessions.store });
        const known = turn === undefined ? undefined : await lengthOf(turn);
        const done = await putBack(session, "undo", () =>
          files.undo(id, { turn, force }).catch((error) => {
            // The conversation can return even if no file was changed since.
            const isNothing = error instanceof UndoRefused && error.code === "nothing";
            if (isNothing && conversation && known !== undefined) {
              return { turns: [], files: [], notCovered: [] };
            }
            throw error;
          }));
        const forkBefore = async () => {
          const length = known ?? await lengthOf(done.turns[0]!);
          return await sessions.fork(session, { length, by: Keys.nameOf(caller) });
        };
        const made = conversation ? await forkBefore() : undefined;
        keep({ sessionId: id });
        return {
          json: { ...arrays(done), turns: [...done.turns], ...(made && { session: sessionBody(made) }) },
        };
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/redo",
      operationId: "redoTurn",
      who: "approve",
      summary: "Reverts the last undo, unless a turn has changed files since, and notifies the model.",
      body: closed({ force: FORCE }, "Redo", { force: true }),
      responses: {
        200: json("The restored changes.", closed(PUT_BACK)),
        ...REFUSED,
      },
      async answer({ path: { id }, body: { force }, keep }) {
        const files = requireCheckpoints();
        const done = await putBack(await sessions.get(id), "redo", () => files.redo(id, { force }));
        keep({ sessionId: id });
        return { json: { ...arrays(done), turns: [...done.turns] } };
      },
    }),
  ];
}

function arrays({ files, notCovered }: Pick<PutBack, "files" | "notCovered">) {
  return { files: [...files], notCovered: [...notCovered] };
}

const CODES = { nothing: "nothing_to_undo", conflict: "changed_since", busy: "files_busy" } as const;

async function putBack(
  session: AgentSession,
  verb: "undo" | "redo",
  work: () => Promise<PutBack>,
): Promise<PutBack> {
  try {
    return await session.betweenTurns(work, (done) => modelText(verb, done));
  } catch (error) {
    if (!(error instanceof UndoRefused)) throw error;
    throw new HttpError(409, CODES[error.code], error.message);
  }
}

const MAX_NAMED = 50;

function modelText(verb: "undo" | "redo", { files, notCovered }: PutBack): string {
  const named = files.slice(0, MAX_NAMED).map(({ path, change }) => `${path} (${change})`);
  const more = files.length > MAX_NAMED ? ` and ${files.length - MAX_NAMED} more` : "";
  return [
    verb === "undo"
      ? "The user has undone the changes above: files are as before them."
      : "The user has reverted the undo: the changes above are restored.",
    files.length === 0 ? "No file differs now." : `Changed now: ${named.join(", ")}${more}.`,
    ...(notCovered.length === 0 ? [] : [`Not covered: ${notCovered.slice(0, MAX_NAMED).join(" ")}`]),
  ].join(" ");
}
