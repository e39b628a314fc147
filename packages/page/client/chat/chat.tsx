import type { TurnLedger } from "@tare/loop";
import type { Content, ContentPart, FileChange } from "@tare/messages";
import type { WorkPlan } from "@tare/messages/internal";
import { changedLines, counted, formatCount, partName } from "@tare/server/internal/format";
import { type EntryOf, shortArguments, type TranscriptEntry } from "@tare/server/internal/transcript";
import type { JSX } from "preact";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ResponseOf } from "../../../server/client.ts";
import { api, errorMessage, RefusedError } from "../api/api.ts";
import { headOf, type TurnBudget, type WaitingCall } from "../api/sessions.ts";
import { Clip } from "../parts/clip.tsx";
import { dollars, duration, plain, share } from "../parts/format.ts";
import { Icon, IconButton } from "../parts/icon.tsx";
import { Markdown } from "../parts/markdown.tsx";
import { Trouble } from "../parts/trouble.tsx";
import { addressOf } from "../place.ts";
import { SessionHead } from "../session_head.tsx";
import { Composer } from "./composer.tsx";
import { type ApprovalReply, plainText, type Sending, SessionTalk } from "./conversation.ts";
import { listen } from "./session_updates.ts";
import { handOver, takeOver } from "./new_session.tsx";

/** Entries that are rendered at first, and added whenever the first one becomes visible. */
const WINDOW = 60;

/** In pixels from the end. */
const NEAR = 48;

export function TalkView({ id }: { readonly id: string }): JSX.Element {
  const conversation = useConversation(id);
  const { entries, session, isRunning, trouble, unsent } = conversation;
  const [visible, setVisible] = useState(WINDOW);
  const { log, content, isAtEnd, toEnd, keepPlace } = useScroll();
  const first = Math.max(0, entries.length - visible);
  const earlier = () => {
    keepPlace();
    setVisible(visible + WINDOW);
  };
  const [editing, setEditing] = useState<Content>();
  const last = entries.findLast(({ kind }) => kind === "user");
  const isIdle = session !== undefined && !isRunning && !conversation.isSending;
  const edit = last?.kind === "user" && isIdle ? () => setEditing(last.content) : undefined;
  const again = async (expected?: Content, sending?: Sending) => {
    const made = await conversation.forkBeforeLast(expected);
    if (made) handOver(made.id, sending ?? { input: made.input });
    return made !== undefined;
  };
  const send = async (input: Content, budget?: TurnBudget) => {
    if (editing !== undefined) return await again(editing, { input, ...(budget && { budget }) });
    toEnd();
    await conversation.send({ input, ...(budget && { budget }) });
    // A rejected message is displayed with a button to retry.
    return true;
  };
  return (
    <section
      class="chat"
      aria-label="Conversation"
      onKeyDown={(event) => event.key === "Escape" && isRunning && conversation.cancel()}
    >
      <SessionHead place={{ view: "talk", id }} head={session && headOf(session)} />
      <div class="log" ref={log} tabIndex={0} role="log" aria-live="off" aria-label="Messages">
        <div class="entries" ref={content}>
          <Top hidden={first} more={earlier} />
          {entries.slice(first).map((item) => (
            <Entry key={item.key} item={item} isLive={isRunning && item === entries.at(-1)} />
          ))}
          {isRunning && <Working />}
          {conversation.approvals.map((approval) => (
            <QuestionView
              key={approval.id}
              approval={approval}
              answer={(reply) => conversation.answer(approval, reply)}
            />
          ))}
          {edit && editing === undefined && (
            <p class="retry">
              <IconButton icon="edit" act={edit}>Edit the last message</IconButton>
              <IconButton icon="retry" act={() => again()}>Try again</IconButton>
            </p>
          )}
        </div>
      </div>
      {!isAtEnd && (
        <div class="jump">
          <button type="button" onClick={toEnd}>
            <Icon name="down" />
            Scroll to the end
          </button>
        </div>
      )}
      <p class="visually-hidden" role="status">
        {isRunning
          ? "The agent is working."
          : conversation.approvals.length > 0
          ? "The agent waits for an approval."
          : session
          ? "The agent is idle."
          : ""}
      </p>
      <Trouble text={trouble} />
      {unsent && !conversation.isSending && (
        <p class="error unsent">
          Message not sent: <bdi>{plainText(unsent.input).slice(0, 80)}</bdi>
          <button type="button" onClick={() => conversation.sendAgain()}>Retry</button>
        </p>
      )}
      {session && !isRunning && conversation.approvals.length === 0 && <Changes id={id} />}
      {conversation.plan && <PlanView plan={conversation.plan} />}
      <Composer
        send={send}
        isRunning={isRunning && editing === undefined}
        cancel={() => conversation.cancel()}
        supportsImages={session?.supportsImages}
        edits={editing}
        leave={() => setEditing(undefined)}
        {...(edit && { edit })}
        {...(session && !isRunning && conversation.approvals.length === 0 && !conversation.isAnswered &&
          { onContinue: (budget?: TurnBudget) => conversation.continue(budget) })}
      />
    </section>
  );
}

function PlanView({ plan: { steps, done } }: { readonly plan: WorkPlan }) {
  const isDone = done === steps.length;
  return (
    <details class="plan" open={!isDone && !matchMedia("(max-width: 60rem)").matches}>
      <summary>
        {isDone
          ? `Plan: ${counted(done, "step")} done`
          : `Plan: ${formatCount(done)} of ${counted(steps.length, "step")} done`}
      </summary>
      <ol>
        {steps.map((step, at) => (
          <li
            key={at}
            class={at < done ? "done" : undefined}
            aria-current={at === done ? "step" : undefined}
          >
            <bdi>{step}</bdi>
            {at < done && <span class="visually-hidden">, done</span>}
          </li>
        ))}
      </ol>
    </details>
  );
}

function Top({ hidden, more }: { readonly hidden: number; readonly more: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!button.current) return;
    const watch = new IntersectionObserver(([entry]) => entry?.isIntersecting && more());
    watch.observe(button.current);
    return () => watch.disconnect();
  });
  if (hidden === 0) return null;
  return (
    <button type="button" class="quiet earlier" ref={button} onClick={more}>
      {hidden === 1 ? "1 earlier entry" : `${formatCount(hidden)} earlier entries`}
    </button>
  );
}

function Working() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((seconds) => seconds + 1), 1_000);
    return () => clearInterval(timer);
  }, []);
  return <p class="working">{seconds === 0 ? "Working" : `Working, ${seconds} s`}</p>;
}

function useConversation(id: string): SessionTalk {
  const [, draw] = useState(0);
  const [conversation] = useState(() => new SessionTalk(id, () => draw((n) => n + 1)));
  useEffect(() => {
    const stop = listen(id, ({ session }) => session && conversation.updateFromList(session));
    const first = takeOver(id);
    conversation.open().then(() => first && conversation.send(first));
    return () => {
      stop();
      conversation.close();
    };
  }, []);
  return conversation;
}

/** Follows the end while it is visible, and preserves the position when entries are added above. */
function useScroll() {
  const log = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const follows = useRef(true);
  const fromEnd = useRef<number | undefined>(undefined);
  useEffect(() => {
    const box = log.current;
    const look = () => {
      if (!box) return;
      follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
      setAtEnd(follows.current);
    };
    box?.addEventListener("scroll", look, { passive: true });
    // Also when the space below the log or an entry changes.
    const watch = new ResizeObserver(() => {
      if (box && follows.current) box.scrollTop = box.scrollHeight;
    });
    if (box && content.current) [box, content.current].forEach((one) => watch.observe(one));
    return () => {
      box?.removeEventListener("scroll", look);
      watch.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    const box = log.current;
    if (!box) return;
    if (fromEnd.current !== undefined) box.scrollTop = box.scrollHeight - fromEnd.current;
    else if (follows.current) box.scrollTop = box.scrollHeight;
    fromEnd.current = undefined;
  });
  return {
    log,
    content,
    isAtEnd,
    toEnd() {
      follows.current = true;
      setAtEnd(true);
      if (log.current) log.current.scrollTop = log.current.scrollHeight;
    },
    keepPlace() {
      if (log.current) fromEnd.current = log.current.scrollHeight - log.current.scrollTop;
    },
  };
}

function QuestionView({ approval, answer }: {
  readonly approval: WaitingCall;
  readonly answer: (reply: ApprovalReply) => Promise<boolean>;
}): JSX.Element {
  const { name, why, effects, change, expiresAtMs } = approval;
  const [reason, setReason] = useState("");
  const [isSent, setSent] = useState(false);
  const box = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (document.activeElement === document.body) box.current?.focus();
  }, []);
  const say = async (decision: ApprovalReply["decision"]) => {
    setSent(true);
    const given = reason.trim();
    if (!await answer({ decision, ...(decision === "deny" && given !== "" && { reason: given }) })) {
      setSent(false);
    }
  };
  return (
    <form
      class="approval"
      aria-label={`Run ${name}?`}
      tabIndex={-1}
      ref={box}
      onSubmit={(event) => {
        event.preventDefault();
        say("deny");
      }}
    >
      <p class="approval-title" role="alert">
        Run{" "}
        <b>
          <bdi>{name}</bdi>
        </b>?
      </p>
      {change && <Diff change={change} />}
      {(change === undefined || change.omitted !== undefined) &&
        <Clip text={readable(approval.arguments)} label="Arguments" />}
      {[...(effects?.writes ?? []).map((path) => `Writes ${path}`), ...(why === undefined ? [] : [why])]
        .map((text) => <p key={text} class="details">{plain(text)}</p>)}
      <p class="details">
        Denied if you send a message, or without a decision by{" "}
        {new Date(expiresAtMs).toLocaleString("en-GB", UNTIL)}.
      </p>
      <div class="answers">
        <button type="button" class="primary" disabled={isSent} onClick={() => say("allow")}>Allow</button>
        <button type="button" disabled={isSent} onClick={() => say("always")}>
          Allow for session
        </button>
        <label>
          Reason
          <input
            value={reason}
            maxLength={2_000}
            placeholder="Visible to the agent"
            onInput={(event) => setReason(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="danger" disabled={isSent}>Deny</button>
      </div>
    </form>
  );
}

const UNTIL = { weekday: "short", hour: "2-digit", minute: "2-digit" } as const;

function readable(text: string): string {
  return plain(JSON.stringify(JSON.parse(text), null, 2));
}

interface EntryProps<Item = TranscriptEntry> {
  readonly item: Item;
  /** Whether the entry may still grow. */
  readonly isLive: boolean;
}

const Entry = memo(({ item, isLive }: EntryProps): JSX.Element | null => {
  switch (item.kind) {
    case "user":
      return <Spoken content={item.content} />;
    case "reply":
      return <Reply item={item} isLive={isLive} />;
    case "call":
      return <Call item={item} />;
    case "rewrite":
      return <Rewritten item={item} />;
    case "warning":
      // Some warnings are sent in every turn and displayed once.
      return item.isRepeated ? null : (
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

function Spoken({ content }: { readonly content: Content }) {
  const parts: readonly ContentPart[] = typeof content === "string"
    ? [{ type: "text", text: content }]
    : content;
  return (
    <article class="message" aria-label="You">
      {parts.map((part, at) => <Part key={at} part={part} />)}
    </article>
  );
}

/** In characters. */
const LONG = 4_000;

function Part({ part }: { readonly part: ContentPart }) {
  switch (part.type) {
    case "text":
      return part.text.length > LONG
        ? <Clip text={part.text} />
        : <p class="plain-text" dir="auto">{part.text}</p>;
    case "refusal":
      return <p class="plain-text" dir="auto">{part.refusal}</p>;
    case "image_url":
      return <Image url={part.image_url.url} alt="Attached image" />;
    default:
      return (
        <p class="file">
          <bdi>{part.type === "file" && part.file.filename || partName(part)}</bdi>
        </p>
      );
  }
}

/** Displays an image that the content contains. Remote images aren't fetched, because that would notify their server. */
function Image({ url, alt }: { readonly url: string; readonly alt: string }) {
  if (/^data:image\/(png|jpeg|gif|webp);/.test(url)) return <img src={url} alt={alt} />;
  return (
    <p class="plain-text">
      <bdi>{url.slice(0, 200)}</bdi>
    </p>
  );
}

function Reply({ item: { text, reasoning }, isLive }: EntryProps<EntryOf<"reply">>) {
  // Reasoning that was displayed live stays open: closing it would move the text.
  const [wasLive] = useState(isLive);
  return (
    <article class="reply" aria-label="Agent">
      {reasoning !== "" && (
        <details class="reasoning" open={wasLive}>
          <summary>Reasoning</summary>
          <Markdown text={reasoning} isLive={isLive && text === ""} />
        </details>
      )}
      {text !== "" && <Markdown text={text} isLive={isLive} />}
    </article>
  );
}

function Call({ item }: { readonly item: EntryOf<"call"> }) {
  const { name, result } = item;
  const args = useMemo(
    () => ({ short: shortArguments(item.arguments, LINE), long: longArguments(item.arguments) }),
    [item.arguments],
  );
  const status = item.approval === "requested" ? undefined : item.approval;
  const waits = item.approval === "requested" || (status?.decision === "deny" && !result);
  const state = result === undefined ? (waits ? "requested" : "running") : result.error ? "failed" : "done";
  return (
    <details
      class={`call ${state}${item.parent === undefined ? "" : " nested"}`}
      open={(item.output !== undefined && !result) || result?.change !== undefined}
    >
      <summary>
        <span class="name">
          <bdi>{name}</bdi>
        </span>
        <span class="args">
          <bdi>{args.short}</bdi>
        </span>
        <span class="state">
          {WORDS[status?.decision === "deny" ? "denied" : state]}
          {result?.durationMs !== undefined && ` ${duration(result.durationMs)}`}
        </span>
      </summary>
      {item.subagent !== undefined && (
        <p>
          <a href={addressOf({ view: "talk", id: item.subagent })}>Subagent session</a>
        </p>
      )}
      {result?.change
        ? <Diff change={result.change} />
        : args.long !== "" && <Clip text={args.long} label="Arguments" />}
      {item.output !== undefined && !result && <Clip text={item.output.slice(-LIVE)} label="Output so far" />}
      {result && <Clip text={result.content} label="Result" />}
      {result?.images?.map((url, at) => <Image key={at} url={url} alt="Image for the model" />)}
      {result?.made && (
        <p>
          {counted(result.made.calls, "call")}, {formatCount(result.made.failed)} failed;{" "}
          {counted(result.made.omittedTokens, "token")} withheld from the prompt
        </p>
      )}
    </details>
  );
}

const WORDS = {
  requested: "waiting for approval",
  running: "running",
  failed: "failed",
  done: "",
  denied: "denied",
} as const;

/** In characters. */
const LINE = 160;

/** In characters. */
const LIVE = 4_000;

function longArguments(text: string): string {
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || value === null) return text;
    const values = Object.values(value).map((one) => typeof one === "string" ? one : JSON.stringify(one));
    if (values.length === 0) return "";
    // Multi-line values, such as programs, are displayed without JSON escapes.
    return values.some((one) => one.includes("\n"))
      ? Object.keys(value).map((name, at) =>
        `${name}:${values[at]!.includes("\n") ? "\n" : " "}${values[at]}`
      ).join("\n\n")
      : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

function Rewritten({ item: { rewrite } }: { readonly item: EntryOf<"rewrite"> }) {
  const { mechanism, reason, removed, tokensBefore, tokensAfter } = rewrite;
  return (
    <details class="notice rewrite">
      <summary>
        Prompt rewritten: {formatCount(tokensBefore)} → {formatCount(tokensAfter)} tokens
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
  approval: "Stopped for approval.",
  cancelled: "Cancelled.",
  step_limit: "The turn reached its step limit.",
  output_limit: "The turn reached its output limit.",
  budget: "The turn used up its budget.",
  stalled: "The turn stopped after no progress for too long.",
  interrupted: "The server stopped during this turn.",
  model_error: "The model's provider failed.",
  internal_error: "The server failed.",
};

function End(
  { item: { reason, message, refusedImages, ledger } }: { readonly item: EntryOf<"end"> },
) {
  return (
    <footer class="end">
      {reason !== "completed" && (
        <p class={reason === "approval" ? "" : "reason"}>
          <bdi>{message ?? REASONS[reason] ?? reason}</bdi>
          {refusedImages &&
            " If the model doesn't support images, edit the message that contains them, or choose another model."}
        </p>
      )}
      <p class="totals">{sumOf(ledger)}</p>
    </footer>
  );
}

function sumOf(
  { calls, promptTokens, cachedTokens, outputTokens, saved, usd, estimated }: TurnLedger,
): string {
  const left = Object.values(saved).reduce((sum, tokens) => sum + tokens, 0);
  const totals = [
    counted(calls, "call"),
    counted(promptTokens, "prompt token"),
    `${share(cachedTokens, promptTokens)} from cache`,
    `${formatCount(outputTokens)} output tokens`,
    left > 0 && `${formatCount(left)} removed`,
    usd !== undefined && dollars(usd),
    estimated && "estimated",
  ];
  return totals.filter(Boolean).join(" · ");
}

type Turn = ResponseOf<"GET /sessions/{id}/changes">["turns"][number];

type Wish = "undo" | "back" | "redo";

function Changes({ id }: { readonly id: string }): JSX.Element | null {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [refused, setRefused] = useState<
    { readonly wish: Wish; readonly why: string; readonly mayForce: boolean }
  >();
  const path = { id };
  const read = () =>
    api.json("GET /sessions/{id}/changes", { path }).then(
      ({ turns }) => setTurns(turns),
      () => setTurns([]),
    );
  useEffect(() => void read(), []);
  const ask = async (wish: Wish, force = false) => {
    setRefused(undefined);
    try {
      if (wish === "redo") await api.json("POST /sessions/{id}/redo", { path, body: { force } });
      else {
        const body = { force, conversation: wish === "back" };
        const { session } = await api.json("POST /sessions/{id}/undo", { path, body });
        if (session) location.hash = addressOf({ view: "talk", id: session.id });
      }
    } catch (error) {
      const mayForce = error instanceof RefusedError && error.status === 409;
      setRefused({ wish, why: errorMessage(error), mayForce });
    }
    await read();
  };
  const done = turns.findLast(({ isUndone }) => !isUndone);
  const isUndone = turns.at(-1)?.isUndone ?? false;
  const visible = isUndone ? turns.at(-1) : done;
  if (!visible) return null;
  return (
    <section class="changes" aria-label="Changed files">
      <details>
        <summary>
          {counted(visible.files.length, "file")} changed by a turn{isUndone && ", undone"}
        </summary>
        <ul>
          {visible.files.map(({ path, change }) => (
            <li key={path}>
              {change} <bdi>{path}</bdi>
            </li>
          ))}
          {visible.notCovered.map((sentence) => (
            <li key={sentence}>
              Not covered: <bdi>{sentence}</bdi>
            </li>
          ))}
        </ul>
      </details>
      {done && <IconButton icon="undo" act={() => ask("undo")}>Undo file changes</IconButton>}
      {done && (
        <IconButton icon="fork" act={() => ask("back")}>Undo and continue from before the turn</IconButton>
      )}
      {isUndone && <IconButton icon="redo" act={() => ask("redo")}>Redo file changes</IconButton>}
      {refused && (
        <p class="error" role="alert">
          <bdi>{refused.why}</bdi>
          {refused.mayForce && (
            <button type="button" onClick={() => ask(refused.wish, true)}>Do it anyway</button>
          )}
        </p>
      )}
    </section>
  );
}

function Diff({ change }: { readonly change: FileChange }): JSX.Element {
  const { path, added, removed } = change;
  const { lines, rest } = useMemo(() => changedLines(change), [change]);
  return (
    <div class="diff">
      <p>
        <bdi>{plain(path)}</bdi>:{" "}
        {lines.length === 0
          ? "no changes"
          : `${counted(added, "line")} added, ${formatCount(removed)} removed`}
      </p>
      {lines.length > 0 && (
        <pre tabIndex={0} role="group" aria-label={`Changes of ${path}`}>
          {lines.map(({ kind, text }, at) => <span key={at} class={kind}>{`${plain(text)}\n`}</span>)}
        </pre>
      )}
      {rest !== undefined && <p>and {rest}</p>}
    </div>
  );
}
