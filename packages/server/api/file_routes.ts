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

/** The tool by which the model lists files: people see what it would, and nothing else. */
const LISTS = "list_files";

/** The route by which files of the workspace are found, for who writes of them. */
export function fileRoutes({ tools, approvals = {} }: Pick<AgentOptions, "tools" | "approvals">) {
  return [
    route({
      method: "GET",
      path: "/agent/files",
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
        limit: limitOf(100, 20, "Most files in the answer."),
      },
      responses: {
        200: json(
          "Paths from the workspace, those first whose name begins so; a folder's ends in a slash.",
          closed(
            { files: Type.Array(Type.String()), hasMore: Type.Boolean() },
            "Files",
          ),
        ),
        404: "The workspace's folder can't be read.",
        501: "The agent lists no files, or not unasked, by a rule of the server.",
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
            `Cannot list files: a rule of the server says ${judgement.decision} to ${LISTS}.`,
          );
        }
        const { allows } = judgement;
        const told = await tool.run(args, { signal, progress() {}, ...(allows && { allows }) });
        if (typeof told !== "string" && told.error) throw notFound(told.content);
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

type PutBack = Awaited<ReturnType<Checkpoints["undo"]>>;

const FILES = Type.Array(
  closed({
    path: text("From the workspace."),
    change: Type.Enum(["created", "changed", "deleted"]),
  }, "ChangedFile"),
);

const NOT_COVERED = Type.Array(Type.String(), {
  description:
    "What an undo doesn't cover, a sentence each: what commands did elsewhere, files that aren't kept.",
});

const TURN = count("Number of the last event before the turn.");

const FORCE = Type.Optional(Type.Boolean({
  description:
    "Whether files are put back too that were changed since. Default: then nothing is, and all are named.",
}));

/** Body of `POST /tare/v1/sessions/{id}/undo`. */
const UNDO = closed(
  {
    turn: Type.Optional(
      count(
        "Files become what they were before this turn: what those behind it have changed is undone too. Default: the " +
          "newest turn that changed some.",
      ),
    ),
    conversation: Type.Optional(Type.Boolean({
      description: "Whether a new session is made in which was said what was before that turn. Default: no.",
    })),
    force: FORCE,
  },
  "Undo",
  { turn: 12 },
);

const PUT_BACK = {
  turns: Type.Array(TURN, { description: "Whose changes were undone or made again, the oldest first." }),
  files: FILES,
  notCovered: NOT_COVERED,
};

const REFUSED = {
  404: "There is no such session, or no such turn in it.",
  409:
    "There is nothing to put back on this machine, files were changed since, a call changes files, or a turn runs " +
    "or asks. Nothing was changed.",
  501: "The server keeps no files.",
};

/** The routes that tell what turns have changed of files, and put it back. */
export function undoRoutes(sessions: Sessions, checkpoints: Omit<Checkpoints, "close"> | undefined) {
  const kept = () => {
    if (checkpoints) return checkpoints;
    throw notSupported("Cannot undo here: the server keeps no files.");
  };
  return [
    route({
      method: "GET",
      path: "/sessions/{id}/changes",
      operationId: "listChanges",
      summary: "Lists what its turns have changed of files, as far as this machine has kept it.",
      responses: {
        200: json(
          "The turns that changed some, the oldest first.",
          closed({
            turns: Type.Array(closed({
              turn: TURN,
              atMs: Type.Number({
                description: "When it changed something last, in milliseconds since the epoch.",
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
        const turns = await kept().changes(session.id);
        return { json: { turns: turns.map((turn) => ({ ...turn, ...arrays(turn) })) } };
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/undo",
      operationId: "undoTurn",
      who: "approve",
      summary:
        "Puts files back as they were before a turn, and lets the model know, or goes on in a new session from before it.",
      body: UNDO,
      responses: {
        200: json(
          "What was put back, and the new session if one was asked for.",
          closed({ ...PUT_BACK, session: Type.Optional(SESSION) }),
        ),
        ...REFUSED,
      },
      async answer({ path: { id }, body: { turn, conversation = false, force }, asker, keep }) {
        const files = kept();
        const session = await sessions.get(id);
        const { settings: { instructions } } = session;
        const lengthOf = (turn: number) => lengthBefore(id, { turn, instructions, store: sessions.store });
        const known = turn === undefined ? undefined : await lengthOf(turn);
        const done = await putBack(session, "undo", () =>
          files.undo(id, { turn, force }).catch((error) => {
            // What was said may be gone back on though no file was changed since.
            const isNothing = error instanceof UndoRefused && error.code === "nothing";
            if (isNothing && conversation && known !== undefined) {
              return { turns: [], files: [], notCovered: [] };
            }
            throw error;
          }));
        const goOn = async () => {
          const length = known ?? await lengthOf(done.turns[0]!);
          return await sessions.fork(session, { length, by: Keys.nameOf(asker) });
        };
        const made = conversation ? await goOn() : undefined;
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
      summary: "Takes back the last undo, unless a turn has changed files since, and lets the model know.",
      body: closed({ force: FORCE }, "Redo", { force: true }),
      responses: {
        200: json("What was made again.", closed(PUT_BACK)),
        ...REFUSED,
      },
      async answer({ path: { id }, body: { force }, keep }) {
        const files = kept();
        const done = await putBack(await sessions.get(id), "redo", () => files.redo(id, { force }));
        keep({ sessionId: id });
        return { json: { ...arrays(done), turns: [...done.turns] } };
      },
    }),
  ];
}

/** The same lists, for an answer. */
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
    return await session.betweenTurns(work, (done) => toldToModel(verb, done));
  } catch (error) {
    if (!(error instanceof UndoRefused)) throw error;
    throw new HttpError(409, CODES[error.code], error.message);
  }
}

/** Files named to the model; it can look for others itself. */
const MOST_NAMED = 50;

function toldToModel(verb: "undo" | "redo", { files, notCovered }: PutBack): string {
  const named = files.slice(0, MOST_NAMED).map(({ path, change }) => `${path} (${change})`);
  const more = files.length > MOST_NAMED ? ` and ${files.length - MOST_NAMED} more` : "";
  return [
    verb === "undo"
      ? "The user has undone what was changed above: files are as they were before."
      : "The user has taken the undo back: files are as they were changed above.",
    files.length === 0 ? "No file is different now." : `Different now: ${named.join(", ")}${more}.`,
    ...(notCovered.length === 0 ? [] : [`Not covered: ${notCovered.slice(0, MOST_NAMED).join(" ")}`]),
  ].join(" ");
}
