import { promiseOf } from "../json_text.ts";
import type { SqlDialect, SqlValue } from "../queries.ts";
import { unpackText } from "../texts.ts";
import { type Database, fromStoredJson } from "./database.ts";
import { corruptError } from "./file_error.ts";

/** Newest sessions searched by title: some hundredths of a second. */
const SEARCHED = 10_000;

/** Returns the SQLite dialect of a database. */
export function sqliteDialect(database: Database): SqlDialect {
  const { path } = database;
  return {
    query: <Row>(sql: string, values?: readonly SqlValue[]) =>
      promiseOf(() => {
        const run = () => database.query<Row>(sql, values);
        return sql.startsWith("DELETE") ? database.transaction(run) : run();
      }),
    parse: (json) => fromStoredJson(json, path),
    list: (parameter) => `json_each(${parameter}) AS list`,
    contains: (text, parameter) => `instr(${text}, ${parameter}) > 0`,
    searched: SEARCHED,
    last: "coalesce((SELECT max(number) FROM events WHERE events.session = h.session), 0)",
    fence: "0",
    isHeld: "0",
    totals: "totals",
    textIn({ ref, zstd }) {
      const content = zstd ? unpackText(zstd, ref) : undefined;
      if (content !== undefined) return Promise.resolve(content);
      throw corruptError(path, `the archived text ${ref} is damaged, its hash doesn't match`);
    },
  };
}
