import type { Content, ContentPart } from "@tare/messages";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { Clip } from "../parts/clip.tsx";
import { count, counted, dollars, duration, share } from "../parts/format.ts";
import { Markdown } from "../parts/markdown.tsx";
import { addressOf } from "../place.ts";
import type { Item } from "./items.ts";

type Of<Kind extends Item["kind"]> = Extract<Item, { kind: Kind }>;

/** One entry of a conversation. An entry that hasn't changed isn't drawn again. */
export const Entry = memo(({ item }: { readonly item: Item }): JSX.Element => {
  switch (item.kind) {
    case "said":
      return <Said content={item.content} />;
    case "reply":
      return <Reply item={item} />;
    case "call":
      return <Call item={item} />;
    case "rewrite":
      return <Rewritten item={item} />;
    case "warning":
      return (
        <p class="notice warning">
          <bdi>{item.message}</bdi>
        </p>
      );
    case "instructions":
      return (
        <details class="instructions">
          <summary>Instructions</summary>
          <Clip text={item.text} label="Instructions" />
        </details>
      );
    case "end":
      return <End item={item} />;
  }
});

function Said({ content }: { readonly content: Content }) {
  const parts: readonly ContentPart[] = typeof content === "string"
    ? [{ type: "text", text: content }]
    : content;
  return (
    <article class="said" aria-label="You">
      {parts.map((part, at) => <Part key={at} part={part} />)}
    </article>
  );
}

/** Longest text of a person that is laid out whole. */
const LONG = 4_000;

function Part({ part }: { readonly part: ContentPart }) {
  switch (part.type) {
    case "text":
      return part.text.length > LONG
        ? <Clip text={part.text} />
        : <p class="plain" dir="auto">{part.text}</p>;
    case "refusal":
      return <p class="plain" dir="auto">{part.refusal}</p>;
    case "image_url":
      // What stands elsewhere isn't fetched: that would tell its server.
      return /^data:image\/(png|jpeg|gif|webp);/.test(part.image_url.url)
        ? <img src={part.image_url.url} alt="Attached picture" />
        : (
          <p class="plain">
            <bdi>{part.image_url.url.slice(0, 200)}</bdi>
          </p>
        );
    case "input_audio":
      return <p class="file">Recording</p>;
    case "file":
      return (
        <p class="file">
          <bdi>{part.file.filename ?? "File"}</bdi>
        </p>
      );
  }
}

function Reply({ item: { text, reasoning } }: { readonly item: Of<"reply"> }) {
  return (
    <article class="reply" aria-label="Agent">
      {reasoning !== "" && (
        <details class="reasoning" open={text === ""}>
          <summary>Reasoning</summary>
          <Markdown text={reasoning} />
        </details>
      )}
      {text !== "" && <Markdown text={text} />}
    </article>
  );
}

function Call({ item }: { readonly item: Of<"call"> }) {
  const { name, result } = item;
  const args = useMemo(() => argumentsOf(item.arguments), [item.arguments]);
  const said = item.approval === "asked" ? undefined : item.approval;
  const waits = item.approval === "asked" || (said?.decision === "deny" && !result);
  const state = result === undefined ? (waits ? "asked" : "running") : result.error ? "failed" : "done";
  return (
    <details class={`call ${state}`} open={item.output !== undefined && !result}>
      <summary>
        <span class="name">
          <bdi>{name}</bdi>
        </span>
        <span class="args">
          <bdi>{args.short}</bdi>
        </span>
        <span class="state">
          {WORDS[said?.decision === "deny" ? "denied" : state]}
          {result?.durationMs !== undefined && ` ${duration(result.durationMs)}`}
        </span>
      </summary>
      {item.helper !== undefined && (
        <p>
          <a href={addressOf({ view: "talk", id: item.helper })}>The helper's session</a>
        </p>
      )}
      {args.long !== "" && <Clip text={args.long} label="Arguments" />}
      {item.output !== undefined && !result && <Clip text={item.output} label="Output so far" />}
      {result && <Clip text={result.content} label="Result" />}
    </details>
  );
}

/** What is said of a call beside its time. */
const WORDS = { asked: "waits", running: "runs", failed: "failed", done: "", denied: "denied" } as const;

/** Longest line of arguments in characters. */
const LINE = 160;

/** A call's arguments in one line and in full; what isn't JSON stays as it was written. */
function argumentsOf(text: string): { readonly short: string; readonly long: string } {
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || value === null) return { short: text.slice(0, LINE), long: text };
    const values = Object.values(value).map((one) => typeof one === "string" ? one : JSON.stringify(one));
    const short = values.join(" · ").slice(0, LINE).replaceAll(/\s+/g, " ");
    return { short, long: values.length === 0 ? "" : JSON.stringify(value, null, 2) };
  } catch {
    return { short: text.slice(0, LINE), long: text };
  }
}

function Rewritten({ item: { rewrite } }: { readonly item: Of<"rewrite"> }) {
  const { mechanism, reason, removed, tokensBefore, tokensAfter } = rewrite;
  return (
    <details class="notice rewrite">
      <summary>
        Prompt rewritten: {count(tokensBefore)} → {count(tokensAfter)} tokens
      </summary>
      <p>
        <bdi>{reason}</bdi>
      </p>
      <p>
        <bdi>{removed}</bdi> ({mechanism})
      </p>
    </details>
  );
}

const REASONS: Readonly<Record<string, string>> = {
  approval: "Waits for an answer.",
  cancelled: "Cancelled.",
  step_limit: "The turn has reached its most steps.",
  output_limit: "The turn has reached its longest output.",
  budget: "The turn has used up its budget.",
  stalled: "Nothing moved for too long.",
  interrupted: "The server ended in the middle of this turn.",
  model_error: "The model's provider failed.",
  internal_error: "The server failed.",
};

function End({ item: { reason, message, ledger } }: { readonly item: Of<"end"> }) {
  const saved = Object.values(ledger.saved).reduce((sum, tokens) => sum + tokens, 0);
  return (
    <footer class="end">
      {reason !== "completed" && (
        <p class="why">
          <bdi>{message ?? REASONS[reason] ?? reason}</bdi>
        </p>
      )}
      <p class="sums">
        {counted(ledger.calls, "call")} · {counted(ledger.promptTokens, "prompt token")} ·{" "}
        {share(ledger.cachedTokens, ledger.promptTokens)} from cache · {count(ledger.outputTokens)} written
        {saved > 0 && ` · ${count(saved)} left out`}
        {ledger.usd !== undefined && ` · ${dollars(ledger.usd)}`}
        {ledger.estimated && " · estimated"}
      </p>
    </footer>
  );
}
