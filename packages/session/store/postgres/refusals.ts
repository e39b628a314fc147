import {
  changedError,
  conflictError,
  fencedError,
  noSessionError,
  notClaimedError,
  notRequestedError,
  otherTextError,
  sessionExistsError,
} from "../store_error.ts";
import { databaseError } from "./database_error.ts";
import { nameIn } from "../json_text.ts";

interface Refusal {
  readonly about: string;
  readonly more: string;
}

interface Refused {
  readonly code: string;
  /** Absent: the refusal is internal. */
  readonly error?: (refusal: Refusal) => Error;
}

export type RefusalName =
  | "alreadyCommitted"
  | "noSession"
  | "sessionExists"
  | "conflict"
  | "fenced"
  | "textMismatch"
  | "notClaimed"
  | "notRequested"
  | "commitCountMismatch"
  | "textDeleted"
  | "documentChanged"
  | "notAvailable";

const REFUSALS: Readonly<Record<RefusalName, Refused>> = {
  alreadyCommitted: { code: "TA000" },
  noSession: { code: "TA001", error: ({ about }) => noSessionError(nameIn(about)) },
  sessionExists: { code: "TA002", error: ({ about }) => sessionExistsError(nameIn(about)) },
  /** Events not after the last one. `more`: the expected and the actual last event. */
  conflict: {
    code: "TA003",
    error({ about, more }) {
      const [after = "", last = ""] = more.split(" ");
      return conflictError(nameIn(about), { after: Number(after), last: Number(last) });
    },
  },
  fenced: { code: "TA004", error: ({ about }) => fencedError(nameIn(about)) },
  textMismatch: { code: "TA005", error: ({ about }) => otherTextError(about) },
  /** `more`: the scope. */
  notClaimed: {
    code: "TA006",
    error: ({ about, more }) => notClaimedError({ key: nameIn(about), scope: nameIn(more) }),
  },
  notRequested: { code: "TA007", error: ({ about }) => notRequestedError(about) },
  /** The session has more commits than its holder knows. `more`: their number. */
  commitCountMismatch: { code: "TA008" },
  /** A session to be held for one commit is held, or its newest hold is another one. */
  notAvailable: { code: "TA009" },
  /** A text that was stored when it was looked up was deleted, or its object was. */
  textDeleted: { code: "TA010" },
  /** Another document than the one to be replaced. `more`: its kind. */
  documentChanged: { code: "TA011", error: ({ about, more }) => changedError(nameIn(more), nameIn(about)) },
};

export const REFUSAL: Readonly<Record<RefusalName, string>> = Object.fromEntries(
  Object.entries(REFUSALS).map(([name, { code }]) => [name, `'${code}'`]),
) as Record<RefusalName, string>;

/** The SQL function that raises refusals: a code of {@linkcode REFUSAL}, the subject, and further data. */
export const REFUSE: string = `
  CREATE FUNCTION tare.refuse(code text, about text, more text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    RAISE EXCEPTION 'refused' USING ERRCODE = code, DETAIL = about, HINT = more;
  END $$;
`;

/** Returns the details if the error is this refusal. */
export function refused(error: unknown, name: RefusalName): Refusal | undefined {
  const { code, detail = "", hint = "" } = databaseError(error) ?? {};
  return code === REFUSALS[name].code ? { about: detail, more: hint } : undefined;
}

/** Returns the common error of a refusal; other errors unchanged. */
export function asRefusal(error: unknown): unknown {
  const { code, detail = "", hint = "" } = databaseError(error) ?? {};
  const known = Object.values(REFUSALS).find((one) => one.code === code);
  return known?.error?.({ about: detail, more: hint }) ?? error;
}
