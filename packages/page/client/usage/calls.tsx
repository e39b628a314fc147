import type { CallReport } from "@tare/session/internal/report";
import { allCalls, type SessionSpend } from "../../../server/client.ts";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { api } from "../api/api.ts";
import { pin, readHead, type Subject } from "../api/reports.ts";
import { type Bar, BarChart } from "../parts/bar_chart.tsx";
import { Choice } from "../parts/choice.tsx";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { money, SpentTable, Units, unpriced } from "../parts/spent.tsx";
import { costsOf, overflowOf, promptTokensOf, type Sum, SumList } from "../parts/totals.tsx";
import { Trouble, useAttempt } from "../parts/trouble.tsx";
import { addressOf } from "../place.ts";
import { SessionHead } from "../session_head.tsx";

const NAMES: Readonly<Record<Part, string>> = {
  cached: "Cache read",
  written: "Cache write",
  uncached: "Uncached",
  output: "Output",
};

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
      {value && calls.length === 0 && <p>No model calls yet.</p>}
      {calls.length > 0 && (
        <>
          <SumList
            totals={[
              ...totalsOf(calls),
              ...value ? overflowOf(value.spend.all) : [],
            ]}
          />
          <h2>Prompt size of each call</h2>
          <Chart
            calls={calls}
            at={at}
            choose={setChosen}
            windowTokens={value?.head.prompt?.windowTokens ?? undefined}
          />
          <Detail call={calls[at]!} />
          {value && <SpendOfSession subject={subject} spend={value.spend} changed={reload} />}
          <h2>Calls</h2>
          <Table calls={calls} at={at} choose={setChosen} />
        </>
      )}
    </section>
  );
}

function totalsOf(calls: readonly CallReport[]): Sum[] {
  const add = (value: (call: CallReport) => number | null) =>
    calls.reduce((sum, call) => sum + (value(call) ?? 0), 0);
  const prompt = add(({ promptTokens }) => promptTokens);
  const cached = add(({ cachedTokens }) => cachedTokens);
  return [
    { name: "Calls", value: formatCount(calls.length) },
    promptTokensOf({ promptTokens: prompt, cachedTokens: cached }),
    { name: "Output tokens", value: formatCount(add(({ outputTokens }) => outputTokens)) },
    ...costsOf({
      costUnits: add(({ costUnits }) => costUnits),
      baselineCostUnits: add(({ baseline, costUnits }) => baseline?.costUnits ?? costUnits),
      usd: add(({ usd }) => usd),
      baselineUsd: add(({ baseline, usd }) => baseline ? baseline.usd : usd),
      unpricedCalls: calls.filter(({ usd }) => usd === null).length,
    }),
  ];
}

interface Choice {
  readonly calls: readonly CallReport[];
  readonly at: number;
  readonly choose: (at: number) => void;
}

function Chart({ calls, at, choose, windowTokens }: Choice & { readonly windowTokens: number | undefined }) {
  const bars = useMemo(() =>
    calls.map((call): Bar => ({
      name: String(call.number),
      values: PARTS.map((part) => partsOf(call)[part]),
      baseline: call.baseline?.promptTokens,
      marks: [
        ...call.rewrites.length > 0 ? ["rewritten" as const] : [],
        ...missedTokens(call) > 0 ? ["missed" as const] : [],
      ],
    })), [calls]);
  return (
    <BarChart
      label="Prompt size of each call"
      series={PARTS.map((part) => [part, NAMES[part]])}
      bars={bars}
      at={at}
      choose={choose}
      text={inWords(calls[at]!)}
      format={(value) => COMPACT.format(value)}
      limit={windowTokens === undefined ? undefined : {
        value: windowTokens,
        name: `context window: ${counted(windowTokens, "token")}`,
      }}
      baseline="Baseline (without Tare)"
      marks={{ rewritten: "Evicted before this call", missed: "Cache miss" }}
    />
  );
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact" });

/** Returns the tokens that were read again because the cache didn't contain them. */
function missedTokens({ uncached }: CallReport): number {
  return uncached.reduce(
    (sum, { cause, tokens }) => cause === "new" || cause === "first_call" ? sum : sum + tokens,
    0,
  );
}

function inWords(call: CallReport): string {
  const tokens = partsOf(call);
  return `Call ${call.number}: ${
    PARTS.map((part) => `${NAMES[part]} ${formatCount(tokens[part])}`).join(", ")
  }` +
    (call.rewrites.length > 0 ? ", evicted before it" : "") +
    (missedTokens(call) > 0 ? `, cache miss of ${counted(missedTokens(call), "token")}` : "");
}

function Detail({ call }: { readonly call: CallReport }) {
  const {
    number,
    turn,
    purpose,
    promptTokens,
    baseline,
    costUnits,
    usd,
    uncached,
    rewrites,
    summary,
    estimated,
    reportedUsd,
  } = call;
  const tokens = partsOf(call);
  const of = (paid: number, baseline: number | null | undefined, format: (value: number) => string) =>
    format(paid) + (typeof baseline === "number" ? ` (baseline ${format(baseline)})` : "");
  const metrics: (readonly [name: string, value: string, part?: Part])[] = [
    ...PARTS.map((part) => [NAMES[part], formatCount(tokens[part]), part] as const),
    ["Prompt", formatCount(promptTokens)],
    ...(baseline ? [["Baseline prompt", formatCount(baseline.promptTokens)] as const] : []),
    ["Cost units", of(costUnits, baseline?.costUnits, formatCount)],
    ["US dollars", usd === null ? "no price" : of(usd, baseline?.usd, dollars)],
    ...(reportedUsd === null ? [] : [["Reported by the provider", dollars(reportedUsd)] as const]),
    ...billingOf(call),
  ];
  return (
    <section class="detail" aria-label="Selected call">
      <h2>
        Call {number}
        {turn !== null && <small>turn {turn}</small>}
        {purpose !== "turn" && <small>{purpose}</small>}
        {estimated && <small>estimated: the provider reported no usage</small>}
      </h2>
      <dl class="metrics">
        {metrics.map(([name, value, part]) => (
          <div key={name} class={part}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {uncached.length > 0 && (
        <p>
          Not served from the cache:{" "}
          {uncached.map(({ cause, tokens }) => `${formatCount(tokens)} ${causeInWords(cause)}`).join(", ")}.
        </p>
      )}
      {summary && (
        <p>
          Before this call a model summarized old turns: {formatCount(summary.promptTokens)} input tokens,
          {" "}
          {formatCount(summary.outputTokens)} output tokens.
        </p>
      )}
      {rewrites.map(({ mechanism, reason, removed, tokensBefore, tokensAfter }, at) => (
        <p key={at} class="reason">
          <strong>Rewritten: {formatCount(tokensBefore)} → {formatCount(tokensAfter)} tokens.</strong> Reason:
          {" "}
          <bdi>{reason}</bdi>. Removed: <bdi>{removed}</bdi>. Mechanism: {mechanism}.
        </p>
      ))}
    </section>
  );
}

/** Returns what decides the price besides tokens. */
function billingOf({ tier, region, servedBy, serverTools, innerCalls }: CallReport): [string, string][] {
  const named: readonly (readonly [string, string | null])[] = [
    ["Service tier", tier],
    ["Region", region],
    ["Served by", servedBy],
  ];
  return [
    ...named.flatMap(([name, value]): [string, string][] => value === null ? [] : [[name, value]]),
    ...Object.entries(serverTools).map(([tool, uses]): [string, string] => [tool, formatCount(uses)]),
    ...innerCalls.map(({ type, model, promptTokens, outputTokens }): [string, string] => [
      [type, model].filter(Boolean).join(", "),
      `${formatCount(promptTokens)} → ${formatCount(outputTokens)}`,
    ]),
  ];
}

const CAUSES: Readonly<Record<string, string>> = {
  first_call: "in the first call of the session",
  new: "new",
  own_rewrite: "after a rewrite by Tare",
  tools_changed: "after changed tools",
  model_changed: "for another model",
  client_changed: "after content that the client changed",
  not_marked: "without a cache breakpoint",
  expired: "expired in the cache",
  provider_lost: "missing from the cache within its lifetime",
};

function causeInWords(cause: string): string {
  return CAUSES[cause] ?? cause;
}

function Table({ calls, at, choose }: Choice) {
  return (
    <section aria-label="Calls as a table">
      <NumbersTable
        label="Table of calls"
        rows={calls.toReversed()}
        isChosen={(call) => call === calls[at]}
        more="Older calls"
        columns={[
          ["Call", ({ number, rewrites }) => (
            <>
              <button type="button" class="quiet" onClick={() => choose(number - 1)}>{number}</button>
              {rewrites.length > 0 && <span class="marker" title="Evicted before this call">▲</span>}
            </>
          )],
          ...PARTS.map((part) =>
            [NAMES[part], (call: CallReport) => formatCount(partsOf(call)[part])] as const
          ),
          ["Cache miss", (call) => missedTokens(call) === 0 ? "" : formatCount(missedTokens(call))],
          ["Prompt", ({ promptTokens }) => formatCount(promptTokens)],
          ["Baseline prompt", ({ baseline }) => baseline ? formatCount(baseline.promptTokens) : "–"],
          ["Cost units", ({ costUnits }) => formatCount(costUnits)],
          ["Baseline cost units", ({ baseline }) => baseline ? formatCount(baseline.costUnits) : "–"],
        ]}
      />
      <p class="note">
        Baseline: the client’s prompt and cost without Tare, its own compactions included. Other numbers are
        tokens as counted by the provider.
      </p>
      <Units />
    </section>
  );
}

/** Parts of a call's tokens, from the bottom of its bar to the top. */
const PARTS = ["cached", "written", "uncached", "output"] as const;
type Part = typeof PARTS[number];

function partsOf(
  { cachedTokens, writtenTokens, newTokens, outputTokens }: CallReport,
): Readonly<Record<Part, number>> {
  return { cached: cachedTokens, written: writtenTokens, uncached: newTokens, output: outputTokens };
}

const BY = { subject: "By path or command", tool: "By tool", result: "By result", turn: "By turn" } as const;

function SpendOfSession({ subject, spend, changed }: {
  readonly subject: Subject;
  readonly spend: SessionSpend;
  readonly changed: () => Promise<void>;
}): JSX.Element {
  const [by, setBy] = useState<keyof typeof BY>("subject");
  const { all, turns, tools, subjects, carried, results, programs } = spend;
  return (
    <>
      <h2>Cost by cause</h2>
      <SpentTable totals={all} />
      <h2>Most expensive results in the prompt</h2>
      <Results
        label="Most expensive results in the prompt"
        subject={subject}
        rows={carried}
        changed={changed}
      />
      <Choice label="Group by" names={BY} chosen={by} choose={setBy} />
      {by === "turn" && <Turns turns={turns} />}
      {by === "result" && <Results label={BY.result} subject={subject} rows={results} changed={changed} />}
      {by === "tool" && <Carried by={by} rows={tools} />}
      {by === "subject" && <Carried by={by} rows={subjects} />}
      {programs && (
        <p class="note">
          Code mode ran {formatCount(programs.programs)} programs with {formatCount(programs.calls)}{" "}
          tool calls, {formatCount(programs.failed)} of them failed, and withheld{" "}
          {formatCount(programs.omittedTokens)}{" "}
          tokens of their results from prompts. This is not counted as saving, because the calls of a session
          without code mode are unknown.
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
  const evict = (place: number) =>
    attempt(async () => {
      await pin(subject, place, "evict");
      await changed();
    });
  if (rows.length === 0) {
    const isPassing = subject.kind === "gateway";
    return (
      <p>
        {isPassing
          ? "No results in memory: the client stores the history. They appear again after its next request."
          : "No results."}
      </p>
    );
  }
  return (
    <>
      <p class="note">
        A result is part of the prompt of each later call and is paid for each time. The cost is the total so
        far.
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
                <bdi>{about ?? tool ?? "Result"}</bdi>
              </a>
            ),
            "clipped",
          ],
          ["Tool", ({ tool }) => <bdi>{tool}</bdi>, "text"],
          ["Cost", money],
          ["Calls", ({ calls }) => formatCount(calls)],
          ["Tokens now", ({ tokens }) => formatCount(tokens)],
          ["Eviction", (result) => evictionCell(result, evict), "text"],
        ]}
      />
    </>
  );
}

function evictionCell(
  { pin, mayPin, state, place, subject, tool }: SessionSpend["results"][number],
  evict: (place: number) => void,
): JSX.Element | string {
  if (pin?.wish === "retain") return "retained";
  if (pin?.state === "waiting") return "evicted at the next rewrite";
  if (state !== "visible" && state !== "deduplicated" && state !== "truncated") return "evicted";
  if (!mayPin.includes("evict")) return "not possible";
  const what = subject ?? tool ?? "the result";
  return <button type="button" aria-label={`Evict: ${what}`} onClick={() => evict(place)}>Evict</button>;
}

function Carried(
  { by, rows }: { readonly by: "tool" | "subject"; readonly rows: readonly SessionSpend["tools"][number][] },
) {
  return (
    <NumbersTable
      label={BY[by]}
      rows={rows}
      columns={[
        [by === "tool" ? "Tool" : "Path or command", ({ key }) => <bdi>{key || "unknown"}</bdi>, "clipped"],
        ["Carrying cost", money],
        ["Results", ({ results }) => formatCount(results)],
        ["Original tokens", ({ tokens }) => formatCount(tokens)],
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
        ["Turn", ({ turn }) => turn === null ? "Outside turns (titles, summaries)" : `Turn ${turn}`],
        ["Cost", money],
        ["Unpriced calls", unpriced],
        ["Calls", ({ calls }) => formatCount(calls)],
        ["First response", ({ at }) => at === null ? "–" : new Date(at).toLocaleString("en-GB")],
        ["Output tokens", ({ outputTokens }) => formatCount(outputTokens)],
      ]}
    />
  );
}
