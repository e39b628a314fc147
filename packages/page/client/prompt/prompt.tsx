import type { BlockReport, PinReport, PromptReport } from "@tare/session/internal/report";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api } from "../api/api.ts";
import { pin, readHead, readPrompt, type Subject } from "../api/reports.ts";
import { Clip } from "../parts/clip.tsx";
import { counted, formatCount } from "@tare/server/internal/format";
import { share } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { Slider } from "../parts/slider.tsx";
import { SumList } from "../parts/totals.tsx";
import { Trouble, useAttempt } from "../parts/trouble.tsx";
import { useWidth } from "../parts/width.ts";
import { SessionHead } from "../session_head.tsx";

type Block = PromptReport["blocks"][number];

const STATES: Readonly<Record<Block["state"], string>> = {
  visible: "unchanged",
  deduplicated: "compressed: repeated content and redundant formatting are removed",
  replaced: "evicted: replaced by a one-line placeholder",
  truncated: "truncated: only head and tail are visible",
  summarized: "summarized with other messages",
  evicted: "evicted: mentioned in a one-line placeholder",
  compact: "compact: names and types only",
};

export function Prompt(
  { subject, block: wanted }: {
    readonly subject: Subject;
    /** Id of the selected block. Default: the first changed one. */
    readonly block?: string | undefined;
  },
): JSX.Element {
  const { value, trouble, reload } = useLoaded(async () => ({
    head: await readHead(subject),
    prompt: await readPrompt(subject),
  }), subject.id);
  const [chosen, setChosen] = useState(wanted);
  const blocks = value?.prompt.blocks ?? [];
  const found = blocks.findIndex(({ id }) => id === chosen);
  const at = found >= 0
    ? found
    : Math.max(0, blocks.findIndex(({ state, kind }) => state !== "visible" && kind === "message"));
  const choose = (at: number) => setChosen(blocks[at]?.id);
  return (
    <section class="report">
      <SessionHead place={{ view: "prompt", ...subject }} head={value?.head} />
      <Trouble text={trouble} />
      {value && blocks.length === 0 && <p>No messages yet.</p>}
      {value && blocks.length > 0 && (
        <>
          <SumList
            totals={[
              { name: "Current prompt", value: formatCount(value.prompt.tokens), note: "tokens" },
              {
                name: "Full history",
                value: formatCount(value.prompt.originalTokens),
                note: "tokens, tools included",
              },
              {
                name: "Removed",
                value: formatCount(Math.max(0, value.prompt.originalTokens - value.prompt.tokens)),
                note: share(value.prompt.originalTokens - value.prompt.tokens, value.prompt.originalTokens),
              },
              { name: "Blocks", value: formatCount(value.prompt.total) },
            ]}
          />
          <PromptStrip blocks={blocks} at={at} choose={choose} />
          <Detail key={blocks[at]!.id} subject={subject} block={blocks[at]!} changed={reload} />
          <ChangedBlocks blocks={blocks} choose={choose} />
        </>
      )}
    </section>
  );
}

const NAMES: Readonly<Record<Kind, string>> = {
  tools: "Tools",
  instructions: "Instructions",
  user: "User",
  assistant: "Model",
  result: "Tool results",
};

function PromptStrip(
  { blocks, at, choose }: {
    readonly blocks: readonly Block[];
    readonly at: number;
    readonly choose: (at: number) => void;
  },
) {
  const [box, width] = useWidth<HTMLDivElement>();
  const { rows, seen, gone, outline, find } = useMemo(() => layOutStrip(blocks, width), [blocks, width]);
  return (
    <div class="strip" ref={box}>
      <Slider
        label="Blocks of the prompt"
        length={blocks.length}
        at={at}
        choose={choose}
        text={inWords(blocks[at]!)}
        find={find}
      >
        <svg width={width} height={rows * (ROW.height + ROW.gap)} aria-hidden="true">
          {KINDS.map((kind) => <path key={kind} class={kind} d={seen[kind]} />)}
          <path class="evicted" d={gone} />
          <path class="outline" d={outline(at)} />
        </svg>
      </Slider>
      <ul class="legend">
        {KINDS.map((kind) => <li key={kind} class={kind}>{NAMES[kind]}</li>)}
        <li class="evicted">Removed from the prompt</li>
      </ul>
    </div>
  );
}

function nameOf(block: Block): string {
  const { kind, tool, role, subject } = block;
  if (kind === "line") return "Placeholder";
  if (kind === "tool") return `Tool ${tool ?? ""}`;
  // The subject, such as a path, identifies a result.
  if (kindOf(block) === "result") return subject ? `${subject} (${tool})` : `Result of ${tool ?? "a call"}`;
  return { user: "User message", assistant: "Model message" }[role] ?? "Instructions";
}

function inWords(block: Block): string {
  return `${nameOf(block)}, ${counted(block.tokens, "token")}, ${STATES[block.state]}: ${block.title}`;
}

function Detail(
  { subject, block, changed }: {
    readonly subject: Subject;
    readonly block: Block;
    readonly changed: () => Promise<void>;
  },
) {
  const [texts, setTexts] = useState<Pick<BlockReport, "now" | "original">>();
  const [trouble, attempt] = useAttempt();
  const { id, place, state, tokens, originalTokens } = block;
  useEffect(() => {
    let isOld = false;
    attempt(async () => {
      const path = { id: subject.id, block: id };
      const read = await api.json("GET /sessions/{id}/prompt/{block}", { path });
      if (!isOld) setTexts(read);
    });
    return () => isOld = true;
  }, [id, state]);
  const wish = (wish?: PinReport["wish"]) =>
    attempt(async () => {
      await pin(subject, place!, wish);
      await changed();
    });
  return (
    <section class="detail" aria-label="Selected block">
      <h2>
        <bdi>{nameOf(block)}</bdi>
        <small>{STATES[state]}</small>
        <small>
          {tokens === originalTokens || block.kind === "line"
            ? counted(tokens, "token")
            : `${formatCount(tokens)} of ${counted(originalTokens, "token")}`}
        </small>
      </h2>
      {place !== null && <Wishes block={block} wish={wish} />}
      <Trouble text={trouble} />
      {texts && (
        <div class="comparison">
          <Side title="Current prompt" text={texts.now} none="Nothing." />
          {texts.original && state !== "visible" && <Side title="Original" text={texts.original} none="" />}
        </div>
      )}
    </section>
  );
}

function Side(
  { title, text, none }: {
    readonly title: string;
    readonly text: NonNullable<BlockReport["now"]> | null;
    readonly none: string;
  },
) {
  return (
    <div>
      <h3>{title}</h3>
      {text ? <Clip text={text.text} label={title} /> : <p>{none}</p>}
      {text && text.chars > text.text.length && (
        <p>The first {formatCount(text.text.length)} of {counted(text.chars, "character")}.</p>
      )}
    </div>
  );
}

function Wishes(
  { block, wish }: { readonly block: Block; readonly wish: (wish?: PinReport["wish"]) => void },
) {
  const { pin, state, mayPin } = block;
  if (pin) {
    const done = pin.state === "done";
    const pinText = pin.wish === "retain"
      ? (done ? "Retained in the prompt." : "Pending: restored at the next rewrite and then retained.")
      : (done ? "Evicted from the prompt." : "Pending: evicted at the next rewrite.");
    return (
      <p class="pin">
        <span role="status">{pinText}</span>
        <button type="button" onClick={() => wish()}>Remove pin</button>
      </p>
    );
  }
  const mayEvict = mayPin.includes("evict") && state !== "replaced";
  if (!mayEvict && !mayPin.includes("retain")) return null;
  return (
    <p class="pin">
      {mayPin.includes("retain") && (
        <button type="button" onClick={() => wish("retain")}>
          {state === "visible" ? "Retain" : "Restore and retain"}
        </button>
      )}
      {mayEvict && <button type="button" onClick={() => wish("evict")}>Evict</button>}
    </p>
  );
}

function ChangedBlocks(
  { blocks, choose }: { readonly blocks: readonly Block[]; readonly choose: (at: number) => void },
) {
  const left = [...blocks.entries()].filter(([, { state, pin }]) => state !== "visible" || pin !== null);
  if (left.length === 0) return <p>The prompt contains everything unchanged.</p>;
  return (
    <section aria-label="Changed and pinned blocks">
      <NumbersTable
        label="Table of blocks"
        rows={left}
        more="More blocks"
        columns={[
          ["Block", ([at, block]) => (
            <button type="button" class="quiet" onClick={() => choose(at)}>
              <bdi>{nameOf(block)}</bdi>
            </button>
          )],
          ["Beginning", ([, { title }]) => <bdi>{title}</bdi>, "clipped"],
          ["Tokens now", ([, { tokens }]) => formatCount(tokens)],
          ["Original tokens", ([, { originalTokens }]) => formatCount(originalTokens)],
          ["State", ([, { pin, state }]) =>
            pin ? (pin.wish === "retain" ? "pinned: retain" : "pinned: evict") : STATES[state], "text"],
        ]}
      />
    </section>
  );
}

const ROW = { height: 30, gap: 6 };

const KINDS = ["tools", "instructions", "user", "assistant", "result"] as const;
type Kind = typeof KINDS[number];

interface Piece {
  readonly at: number;
  readonly row: number;
  readonly x: number;
  readonly width: number;
}

const A_ROW = 60;

const MAX_ROWS = 14;

function kindOf({ kind, role }: Pick<Block, "kind" | "role">): Kind {
  if (kind === "tool") return "tools";
  if (role === "system" || role === "developer") return "instructions";
  if (role === "tool" || role === "function") return "result";
  return role === "assistant" ? "assistant" : "user";
}

/** Lays blocks out to scale in rows, as SVG paths: the visible part by kind, then the evicted part. */
function layOutStrip(blocks: readonly Block[], width: number) {
  const rows = Math.max(1, Math.min(MAX_ROWS, Math.ceil(blocks.length / A_ROW)));
  const sizes = blocks.map(({ tokens, originalTokens }) => Math.max(tokens, originalTokens));
  const total = Math.max(1, sizes.reduce((sum, size) => sum + size, 0));
  const scale = width * rows / total;
  const seen: Record<Kind, string> = { tools: "", instructions: "", user: "", assistant: "", result: "" };
  let gone = "";
  const pieces: Piece[] = [];
  let from = 0;
  for (const [at, block] of blocks.entries()) {
    const size = sizes[at] ?? 0;
    const split = from + block.tokens;
    for (const piece of cut({ from: from * scale, to: (from + size) * scale, width, rows })) {
      pieces.push({ at, ...piece });
    }
    for (const piece of cut({ from: from * scale, to: split * scale, width, rows })) {
      seen[kindOf(block)] += box(piece);
    }
    for (const piece of cut({ from: split * scale, to: (from + size) * scale, width, rows })) {
      gone += box(piece);
    }
    from += size;
  }
  return {
    rows,
    seen,
    gone,
    outline: (at: number) => pieces.filter((piece) => piece.at === at).map(box).join(""),
    find(x: number, y: number) {
      const row = Math.max(0, Math.min(rows - 1, Math.floor(y / (ROW.height + ROW.gap))));
      // A block that is too narrow to hit is reached by keyboard.
      return pieces.findLast((piece) => piece.row === row && piece.x <= x)?.at;
    },
  };
}

function cut(
  { from, to, width, rows }: {
    readonly from: number;
    readonly to: number;
    readonly width: number;
    readonly rows: number;
  },
): Omit<Piece, "at">[] {
  const pieces: Omit<Piece, "at">[] = [];
  if (width <= 0) return pieces;
  for (let at = from; to - at > 1e-6;) {
    const row = Math.min(rows - 1, Math.floor(at / width + 1e-9));
    const end = row === rows - 1 ? to : Math.min(to, (row + 1) * width);
    pieces.push({ row, x: at - row * width, width: end - at });
    at = end;
  }
  return pieces;
}

function box({ row, x, width }: Omit<Piece, "at">): string {
  const columns = width > 3 ? width - 1 : width;
  const y = row * (ROW.height + ROW.gap);
  return `M${x.toFixed(2)} ${y}h${columns.toFixed(2)}v${ROW.height}h${(-columns).toFixed(2)}z`;
}
