import type { SessionSpend } from "@tare/conversation/report";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { pin, type Subject } from "../api/reports.ts";
import { Choice } from "../parts/choice.tsx";
import { count } from "../parts/format.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { money, SpentTable } from "../parts/spent.tsx";
import { addressOf } from "../place.ts";
import { sentenceOf } from "../talk/conversation.ts";

/** What a session's money may be cut by. */
const BY = { subject: "By path or command", tool: "By tool", result: "By result", turn: "By turn" } as const;

/** What a session's money went for, and which results cost most. */
export function SpendOfSession({ subject, spend, changed }: {
  readonly subject: Subject;
  readonly spend: SessionSpend;
  readonly changed: () => Promise<void>;
}): JSX.Element {
  const [by, setBy] = useState<keyof typeof BY>("subject");
  const { all, turns, tools, subjects, carried, results, programs } = spend;
  return (
    <>
      <SpentTable sums={all} />
      <h2>The dearest results in the prompt</h2>
      <Results label="The dearest results in the prompt" subject={subject} rows={carried} changed={changed} />
      <Choice label="Cut by" names={BY} chosen={by} choose={setBy} />
      {by === "turn" && <Turns turns={turns} />}
      {by === "result" && <Results label={BY.result} subject={subject} rows={results} changed={changed} />}
      {by === "tool" && <Carried by={by} rows={tools} />}
      {by === "subject" && <Carried by={by} rows={subjects} />}
      {programs && (
        <p class="note">
          {count(programs.programs)} programs made {count(programs.calls)} calls, of which{" "}
          {count(programs.failed)} failed, and kept {count(programs.keptTokens)}{" "}
          tokens of what these returned outside of every prompt. That is no saving: nobody knows what would
          have been called instead.
        </p>
      )}
    </>
  );
}

function Results({ label, subject, rows, changed }: {
  readonly label: string;
  readonly subject: Subject;
  readonly rows: readonly SessionSpend["results"][number][];
  readonly changed: () => Promise<void>;
}) {
  const [trouble, setTrouble] = useState<string>();
  const letGo = async (place: number) => {
    setTrouble(undefined);
    try {
      await pin(subject, place, "let_go");
      await changed();
    } catch (error) {
      setTrouble(sentenceOf(error));
    }
  };
  if (rows.length === 0) {
    const isPassing = subject.kind === "gateway";
    return (
      <p>
        {isPassing
          ? "None is known here: what was said is with its client, and is seen again with its next request."
          : "There is none."}
      </p>
    );
  }
  return (
    <>
      <p class="note">
        A result stands in the prompt of each call behind it, and is paid for each time: what that has cost
        until now.
      </p>
      {trouble !== undefined && <p class="trouble" role="alert">{trouble}</p>}
      <NumbersTable
        label={label}
        heads={["Result", "Tool", "Has cost", "Calls", "Tokens now", "Let go"]}
        words={["Tool", "Let go"]}
        rows={rows}
        draw={(result) => (
          <tr key={result.id}>
            <th scope="row" class="begins">
              <a href={addressOf({ ...subject, view: "prompt", block: result.id })}>
                <bdi>{result.subject ?? result.tool ?? "A result"}</bdi>
              </a>
            </th>
            <td class="words">
              <bdi>{result.tool}</bdi>
            </td>
            <td>{money(result)}</td>
            <td>{count(result.calls)}</td>
            <td>{count(result.tokens)}</td>
            <td class="words">{standing(result, letGo)}</td>
          </tr>
        )}
      />
    </>
  );
}

/** Whether a result has left, is about to, or may be let go. */
function standing(
  { pin, state, place, subject, tool }: SessionSpend["results"][number],
  letGo: (place: number) => void,
): JSX.Element | string {
  if (pin?.wish === "keep") return "is kept";
  if (pin?.state === "waiting") return "leaves at the next rewrite";
  if (state !== "alive" && state !== "said_once" && state !== "truncated") return "has left";
  const what = subject ?? tool ?? "the result";
  return <button type="button" aria-label={`Let go: ${what}`} onClick={() => letGo(place)}>Let go</button>;
}

function Carried(
  { by, rows }: { readonly by: "tool" | "subject"; readonly rows: readonly SessionSpend["tools"][number][] },
) {
  return (
    <NumbersTable
      label={BY[by]}
      heads={[
        by === "tool" ? "Tool" : "Path or command",
        "Carrying it has cost",
        "Results",
        "Tokens when they came",
      ]}
      rows={rows}
      draw={({ key, results, tokens, ...cost }) => (
        <tr key={key}>
          <th scope="row" class="begins">
            <bdi>{key || "not known"}</bdi>
          </th>
          <td>{money(cost)}</td>
          <td>{count(results)}</td>
          <td>{count(tokens)}</td>
        </tr>
      )}
    />
  );
}

function Turns({ turns }: Pick<SessionSpend, "turns">) {
  return (
    <NumbersTable
      label={BY.turn}
      heads={["Turn", "Cost", "Without a price", "Calls", "Answered first", "Output tokens"]}
      rows={turns}
      draw={({ turn, at, ...sums }) => (
        <tr key={turn}>
          <th scope="row">{turn === null ? "No turn: titles, summaries and the like" : `Turn ${turn}`}</th>
          <td>{money(sums)}</td>
          <td>{sums.unpricedCalls === 0 ? "" : count(sums.unpricedCalls)}</td>
          <td>{count(sums.calls)}</td>
          <td>{at === null ? "–" : new Date(at).toLocaleString("en-GB")}</td>
          <td>{count(sums.outputTokens)}</td>
        </tr>
      )}
    />
  );
}
