import {
  changedError,
  conflictError,
  fencedError,
  noSessionError,
  notAskedError,
  notClaimedError,
  otherTextError,
  sessionExistsError,
} from "../store_error.ts";
import { databaseError } from "./database_error.ts";
import { nameIn } from "../json_text.ts";

/** What a function of the database says when it refuses something: what that is about, and what else is to be known. */
interface Said {
  readonly about: string;
  readonly more: string;
}

interface Refused {
  /** The SQLSTATE by which PostgreSQL tells it. */
  readonly code: string;
  /** What every store says of it. Absent: nobody but this store gets to hear of it. */
  readonly error?: (said: Said) => Error;
}

/** The name of something that is refused. */
export type RefusalName =
  | "wasDone"
  | "noSession"
  | "sessionExists"
  | "conflict"
  | "fenced"
  | "otherText"
  | "notClaimed"
  | "notAsked"
  | "otherCommits"
  | "textGone"
  | "changed"
  | "notFree";

/** Everything that the store's own functions refuse, once for both languages. */
const REFUSALS: Readonly<Record<RefusalName, Refused>> = {
  /** The same commit was done before: what was sent again writes nothing. */
  wasDone: { code: "TA000" },
  noSession: { code: "TA001", error: ({ about }) => noSessionError(nameIn(about)) },
  sessionExists: { code: "TA002", error: ({ about }) => sessionExistsError(nameIn(about)) },
  /** Events behind another than the last. `more` is the one behind which they were written, and the last. */
  conflict: {
    code: "TA003",
    error({ about, more }) {
      const [after = "", last = ""] = more.split(" ");
      return conflictError(nameIn(about), { after: Number(after), last: Number(last) });
    },
  },
  fenced: { code: "TA004", error: ({ about }) => fencedError(nameIn(about)) },
  otherText: { code: "TA005", error: ({ about }) => otherTextError(about) },
  /** `more` is the scope. */
  notClaimed: {
    code: "TA006",
    error: ({ about, more }) => notClaimedError({ key: nameIn(about), scope: nameIn(more) }),
  },
  notAsked: { code: "TA007", error: ({ about }) => notAskedError(about) },
  /** There are more commits of a session than its holder thinks. `more` is how many. */
  otherCommits: { code: "TA008" },
  /** A session that is to be held for one commit is held, or its newest hold is another one. */
  notFree: { code: "TA009" },
  /** A text that was there without its bytes when it was asked for isn't any more, or its object was given up. */
  textGone: { code: "TA010" },
  /** A document that isn't the one that was to be replaced. `more` is its kind. */
  changed: { code: "TA011", error: ({ about, more }) => changedError(nameIn(more), nameIn(about)) },
};

/** By its name what SQL writes for each. */
export const REFUSAL: Readonly<Record<RefusalName, string>> = Object.fromEntries(
  Object.entries(REFUSALS).map(([name, { code }]) => [name, `'${code}'`]),
) as Record<RefusalName, string>;

/** The function by which all others refuse: a code of {@linkcode REFUSAL}, what it is about, and more. */
export const REFUSE: string = `
  CREATE FUNCTION tare.refuse(code text, about text, more text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    RAISE EXCEPTION 'refused' USING ERRCODE = code, DETAIL = about, HINT = more;
  END $$;
`;

/** What was refused, if the error says that this was. */
export function refused(error: unknown, name: RefusalName): Said | undefined {
  const { code, detail = "", hint = "" } = databaseError(error) ?? {};
  return code === REFUSALS[name].code ? { about: detail, more: hint } : undefined;
}

/** What a function of the store refused, as every store says it; anything else as it was. */
export function asRefusal(error: unknown): unknown {
  const { code, detail = "", hint = "" } = databaseError(error) ?? {};
  const known = Object.values(REFUSALS).find((one) => one.code === code);
  return known?.error?.({ about: detail, more: hint }) ?? error;
}
