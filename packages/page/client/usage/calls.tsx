import type { CallReport } from "@tare/session/internal/report";
import { allCalls, type SessionSpend } from "../../../server/client.ts";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { api } from "../api/api.ts";
import { pin, readHead, type Subject } from "../api/reports.ts";
import { Choice } from "../parts/choice.tsx";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { Slider } from "../parts/slider.tsx";
import { money, SpentTable, Units, unpriced } from "../parts/spent.tsx";
import { costsOf, overflowOf, promptTokensOf, type Sum, SumList } from "../parts/sums.tsx";
import { Trouble, useAttempt } from "../parts/trouble.tsx";
import { useWidth } from "../parts/width.ts";
import { addressOf } from "../place.ts";
import { SessionHead } from "../session_head.tsx";

const NAMES: Readonly<Record<Part, string>> = {
  cached: "Read from cache",
  written: "Written to cache",
  fresh: "New",
  output: "Output",
};

/** Where a session's money went: what for, which results cost most, and a bar a call. */
export function Calls({ subject }: { readonly subject: Subject }): JSX.Element {
  const { value, trouble, reload } = useLoaded(async () => ({
    head: await readHead(subject),
    calls: await allCalls(api, subject.id),
    spend: await api.json("GET /sessions/{id}/spend", { path: { id: subject.id } }),
  }), subject.id);
  const [chosen, setChosen] = useState<number>();
  const calls = value?.calls ?? [];
  const at = Math.min(chosen ?? calls.length - 1, calls.length - 1);
  return (
    <section class="report">
      <SessionHead place={{ view: "calls", ...subject }} head={value?.head} />
      <Trouble text={trouble} />
      {value && calls.length === 0 && <p>No call has been answered yet.</p>}
      {calls.length > 0 && (
        <>
          <SumList
            sums={[
              ...sumsOf(calls),
              ...value ? overflowOf(value.spend.all) : [],
            ]}
          />
          {value && <SpendOfSession subject={subject} spend={value.spend} changed={reload} />}
          <h2>Call by call</h2>
          <Chart calls={calls} at={at} choose={setChosen} />
          <Detail call={calls[at]!} />
          <Table calls={calls} at={at} choose={setChosen} />
        </>
      )}
    </section>
  );
}

function sumsOf(calls: readonly CallReport[]): Sum[] {
  const add = (value: (call: CallReport) => number | null) =>
    calls.reduce((sum, call) => sum + (value(call) ?? 0), 0);
  const prompt = add(({ promptTokens }) => promptTokens);
  const cached = add(({ cachedTokens }) => cachedTokens);
  return [
    { name: "Calls", value: formatCount(calls.length) },
    promptTokensOf({ promptTokens: prompt, cachedTokens: cached }),
    { name: "Output tokens", value: formatCount(add(({ outputTokens }) => outputTokens)) },
    ...costsOf({
      tokenUnits: add(({ tokenUnits }) => tokenUnits),
      withoutTokenUnits: add(({ without, tokenUnits }) => without?.tokenUnits ?? tokenUnits),
      usd: add(({ usd }) => usd),
      withoutUsd: add(({ without, usd }) => without ? without.usd : usd),
      unpricedCalls: calls.filter(({ usd }) => usd === null).length,
    }),
  ];
}

interface Choice {
  readonly calls: readonly CallReport[];
  readonly at: number;
  readonly choose: (at: number) => void;
}

function Chart({ calls, at, choose }: Choice) {
  const [box, room] = useWidth<HTMLDivElement>();
  const { width, pitch, most, paths, without, rewritten } = useMemo(() => layOutBars(calls, room), [
    calls,
    room,
  ]);
  return (
    <div class="chart" ref={box}>
      <p class="scale">{counted(most, "token")}</p>
      <Slider
        label="Calls"
        length={calls.length}
        at={at}
        choose={choose}
        text={inWords(calls[at]!)}
        find={(x) => Math.floor(x / pitch)}
      >
        <svg width={width} height={HEIGHT + FOOT} aria-hidden="true">
          <rect class="chosen" x={at * pitch} y={0} width={pitch} height={HEIGHT + FOOT} />
          {PARTS.map((part) => <path key={part} class={part} d={paths[part]} />)}
          <path class="without" d={without} />
          <path class="base" d={`M0 ${HEIGHT + 0.5}h${width}`} />
          {rewritten.map((at) => (
            <path key={at} class="mark" d={`M${at * pitch + pitch / 2} ${HEIGHT + 3}l4.5 8h-9z`} />
          ))}
        </svg>
      </Slider>
      <ul class="legend">
        {PARTS.map((part) => <li key={part} class={part}>{NAMES[part]}</li>)}
        <li class="without">Without Tare</li>
        <li class="mark">Rewritten before this call</li>
      </ul>
    </div>
  );
}

function inWords(call: CallReport): string {
  const tokens = partsOf(call);
  return `Call ${call.number}: ${
    PARTS.map((part) => `${NAMES[part]} ${formatCount(tokens[part])}`).join(", ")
  }` +
    (call.rewrites.length > 0 ? ", rewritten before it" : "");
}

function Detail({ call }: { readonly call: CallReport }) {
  const {
    number,
    turn,
    purpose,
    promptTokens,
    without,
    tokenUnits,
    usd,
    uncached,
    rewrites,
    summary,
    estimated,
  } = call;
  const tokens = partsOf(call);
  const of = (paid: number, without: number | null | undefined, format: (value: number) => string) =>
    format(paid) + (typeof without === "number" ? ` of ${format(without)}` : "");
  const figures: (readonly [name: string, value: string, part?: Part])[] = [
    ...PARTS.map((part) => [NAMES[part], formatCount(tokens[part]), part] as const),
    ["Prompt", formatCount(promptTokens)],
    ...(without ? [["Prompt without Tare", formatCount(without.promptTokens)] as const] : []),
    ["Token units", of(tokenUnits, without?.tokenUnits, formatCount)],
    ...(usd === null ? [] : [["US dollars", of(usd, without?.usd, dollars)] as const]),
  ];
  return (
    <section class="detail" aria-label="The chosen call">
      <h2>
        Call {number}
        {turn !== null && <small>turn {turn}</small>}
        {purpose !== "turn" && <small>{purpose}</small>}
        {estimated && <small>counted here, the provider told nothing</small>}
      </h2>
      <dl class="figures">
        {figures.map(([name, value, part]) => (
          <div key={name} class={part}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {uncached.length > 0 && (
        <p>
          Not from the cache:{" "}
          {uncached.map(({ cause, tokens }) => `${formatCount(tokens)} ${causeInWords(cause)}`).join(", ")}.
        </p>
      )}
      {summary && (
        <p>
          Before it a model summed up old turns: {formatCount(summary.promptTokens)} tokens read,{" "}
          {formatCount(summary.outputTokens)} written.
        </p>
      )}
      {rewrites.map(({ mechanism, reason, removed, tokensBefore, tokensAfter }, at) => (
        <p key={at} class="why">
          <strong>Rewritten: {formatCount(tokensBefore)} → {formatCount(tokensAfter)} tokens.</strong> Why:
          {" "}
          <bdi>{reason}</bdi>. What: <bdi>{removed}</bdi>. By: {mechanism}.
        </p>
      ))}
    </section>
  );
}

const CAUSES: Readonly<Record<string, string>> = {
  first_call: "as the first call of the session",
  new: "were new",
  own_rewrite: "moved by a rewrite",
  tools_changed: "behind tools that changed",
  model_changed: "for another model",
  client_changed: "behind what the client changed",
  not_marked: "never asked to be cached",
  expired: "kept longer than the cache does",
  provider_lost: "lost by the provider’s cache",
};

function causeInWords(cause: string): string {
  return CAUSES[cause] ?? cause;
}

function Table({ calls, at, choose }: Choice) {
  return (
    <section aria-label="Calls in numbers">
      <NumbersTable
        label="Table of calls"
        rows={calls.toReversed()}
        isChosen={(call) => call === calls[at]}
        more="Older calls"
        columns={[
          ["Call", ({ number, rewrites }) => (
            <>
              <button type="button" class="quiet" onClick={() => choose(number - 1)}>{number}</button>
              {rewrites.length > 0 && <span class="mark" title="Rewritten before this call">▲</span>}
            </>
          )],
          ...PARTS.map((part) =>
            [NAMES[part], (call: CallReport) => formatCount(partsOf(call)[part])] as const
          ),
          ["Prompt", ({ promptTokens }) => formatCount(promptTokens)],
          ["Prompt without Tare", ({ without }) => without ? formatCount(without.promptTokens) : "–"],
          ["Token units", ({ tokenUnits }) => formatCount(tokenUnits)],
          ["Units without Tare", ({ without }) => without ? formatCount(without.tokenUnits) : "–"],
        ]}
      />
      <p class="note">
        Without Tare: what the client alone would have sent and paid, its own compactions included. The rest
        is in tokens, as the provider counts them.
      </p>
      <Units />
    </section>
  );
}

/** What the tokens of a call were, from the base of its bar to its top. */
const PARTS = ["cached", "written", "fresh", "output"] as const;
type Part = typeof PARTS[number];

const HEIGHT = 200;

/** Room above the highest of them for half a line, in pixels. */
const HEAD = 2;

/** Room under the bars for the marks of rewrites, in pixels. */
const FOOT = 14;

/** Narrowest and widest bars, in pixels, with the space between them. */
const PITCH = { least: 5, most: 36 };

function partsOf(
  { cachedTokens, writtenTokens, newTokens, outputTokens }: CallReport,
): Readonly<Record<Part, number>> {
  return { cached: cachedTokens, written: writtenTokens, fresh: newTokens, output: outputTokens };
}

/** Lays out a bar for each call as SVG paths, scrollable if they don't fit; `most` is the number of tokens at the top. */
function layOutBars(calls: readonly CallReport[], room: number) {
  const pitch = Math.max(PITCH.least, Math.min(PITCH.most, room / Math.max(1, calls.length)));
  const most = calls.reduce(
    (most, { promptTokens, without, outputTokens }) =>
      Math.max(most, Math.max(promptTokens, without?.promptTokens ?? 0) + outputTokens),
    1,
  );
  const paths: Record<Part, string> = { cached: "", written: "", fresh: "", output: "" };
  let without = "";
  const barWidth = pitch * 0.8;
  for (const [at, call] of calls.entries()) {
    const x = round(at * pitch + pitch * 0.1);
    let top = HEIGHT;
    const tokens = partsOf(call);
    for (const part of PARTS) {
      const height = tokens[part] / most * (HEIGHT - HEAD);
      if (height <= 0) continue;
      top -= height;
      paths[part] += `M${x} ${round(top)}h${round(barWidth)}v${round(height)}h${-round(barWidth)}z`;
    }
    if (!call.without) continue;
    const y = round(HEIGHT - call.without.promptTokens / most * (HEIGHT - HEAD));
    without += `${without === "" ? "M" : "L"}${round(at * pitch)} ${y}h${round(pitch)}`;
  }
  const rewritten = [...calls.entries()].filter(([, { rewrites }]) => rewrites.length > 0).map(([at]) => at);
  return { width: Math.max(room, pitch * calls.length), pitch, most, paths, without, rewritten };
}

function round(pixels: number): number {
  return Math.round(pixels * 10) / 10;
}

const BY = { subject: "By path or command", tool: "By tool", result: "By result", turn: "By turn" } as const;

/** What a session's money went for, and which results cost most. */
function SpendOfSession({ subject, spend, changed }: {
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
          {formatCount(programs.programs)} programs made {formatCount(programs.calls)} calls, of which{" "}
          {formatCount(programs.failed)} failed, and kept {formatCount(programs.keptTokens)}{" "}
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
  const [trouble, attempt] = useAttempt();
  const letGo = (place: number) =>
    attempt(async () => {
      await pin(subject, place, "let_go");
      await changed();
    });
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
      <Trouble text={trouble} />
      <NumbersTable
        label={label}
        rows={rows}
        columns={[
          [
            "Result",
            ({ id, subject: about, tool }) => (
              <a href={addressOf({ ...subject, view: "prompt", block: id })}>
                <bdi>{about ?? tool ?? "A result"}</bdi>
              </a>
            ),
            "begins",
          ],
          ["Tool", ({ tool }) => <bdi>{tool}</bdi>, "words"],
          ["Has cost", money],
          ["Calls", ({ calls }) => formatCount(calls)],
          ["Tokens now", ({ tokens }) => formatCount(tokens)],
          ["Let go", (result) => standing(result, letGo), "words"],
        ]}
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
      rows={rows}
      columns={[
        [by === "tool" ? "Tool" : "Path or command", ({ key }) => <bdi>{key || "not known"}</bdi>, "begins"],
        ["Carrying it has cost", money],
        ["Results", ({ results }) => formatCount(results)],
        ["Tokens when they came", ({ tokens }) => formatCount(tokens)],
      ]}
    />
  );
}

function Turns({ turns }: Pick<SessionSpend, "turns">) {
  return (
    <NumbersTable
      label={BY.turn}
      rows={turns}
      columns={[
        ["Turn", ({ turn }) => turn === null ? "No turn: titles, summaries and the like" : `Turn ${turn}`],
        ["Cost", money],
        ["Without a price", unpriced],
        ["Calls", ({ calls }) => formatCount(calls)],
        ["Answered first", ({ at }) => at === null ? "–" : new Date(at).toLocaleString("en-GB")],
        ["Output tokens", ({ outputTokens }) => formatCount(outputTokens)],
      ]}
    />
  );
}
