import type { BlockReport, BlockText, PinReport, PromptBlock } from "@tare/conversation/report";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { pin, readBlock, readPrompt, readTitle, type Subject } from "../api/reports.ts";
import { Clip } from "../parts/clip.tsx";
import { count, counted, share } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { Slider } from "../parts/slider.tsx";
import { SumList } from "../parts/sums.tsx";
import { useWidth } from "../parts/width.ts";
import { SessionHead } from "../session_head.tsx";
import { sentenceOf } from "../talk/conversation.ts";
import { type Kind, kindOf, KINDS, layOutStrip, ROW } from "./strip.ts";

const STATES: Readonly<Record<PromptBlock["state"], string>> = {
  alive: "as it was said",
  elided: "elided: a line stands in its place",
  truncated: "truncated: head and tail are shown",
  summarised: "summarised with others",
  left: "left: a line says that it was there",
  compact: "compact: names and types alone",
};

/** What the model sees of a session: its prompt as blocks to scale. */
export function Prompt({ subject }: { readonly subject: Subject }): JSX.Element {
  const { value, trouble, reload } = useLoaded(async () => ({
    title: await readTitle(subject),
    prompt: await readPrompt(subject),
  }), subject.id);
  const [chosen, setChosen] = useState<string>();
  const blocks = value?.prompt.blocks ?? [];
  const found = blocks.findIndex(({ id }) => id === chosen);
  const at = found >= 0
    ? found
    : Math.max(0, blocks.findIndex(({ state, kind }) => state !== "alive" && kind === "message"));
  const choose = (at: number) => setChosen(blocks[at]?.id);
  return (
    <section class="report">
      <SessionHead place={{ view: "prompt", ...subject }} title={value?.title ?? "Session"} />
      {trouble !== undefined && <p class="trouble" role="alert">{trouble}</p>}
      {value && blocks.length === 0 && <p>Nothing has been said yet.</p>}
      {value && blocks.length > 0 && (
        <>
          <SumList
            sums={[
              { name: "The model sees", value: count(value.prompt.tokens), note: "tokens" },
              { name: "Everything", value: count(value.prompt.originalTokens), note: "tokens" },
              {
                name: "Left out",
                value: count(Math.max(0, value.prompt.originalTokens - value.prompt.tokens)),
                note: share(value.prompt.originalTokens - value.prompt.tokens, value.prompt.originalTokens),
              },
              { name: "Blocks", value: count(value.prompt.total) },
            ]}
          />
          <Picture blocks={blocks} at={at} choose={choose} />
          <Detail key={blocks[at]!.id} subject={subject} block={blocks[at]!} changed={reload} />
          <Left blocks={blocks} choose={choose} />
        </>
      )}
    </section>
  );
}

const NAMES: Readonly<Record<Kind, string>> = {
  tools: "Tools",
  instructions: "Instructions",
  user: "People",
  assistant: "Model",
  result: "Results",
};

function Picture(
  { blocks, at, choose }: {
    readonly blocks: readonly PromptBlock[];
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
          <path class="gone" d={gone} />
          <path class="outline" d={outline(at)} />
        </svg>
      </Slider>
      <ul class="legend">
        {KINDS.map((kind) => <li key={kind} class={kind}>{NAMES[kind]}</li>)}
        <li class="gone">Left out of the prompt</li>
      </ul>
    </div>
  );
}

function nameOf(block: PromptBlock): string {
  const { kind, tool, role } = block;
  if (kind === "line") return "A line for what left";
  if (kind === "tool") return `Tool ${tool ?? ""}`;
  if (kindOf(block) === "result") return `Result of ${tool ?? "a call"}`;
  return { user: "A person says", assistant: "The model says" }[role] ?? "Instructions";
}

function inWords(block: PromptBlock): string {
  return `${nameOf(block)}, ${counted(block.tokens, "token")}, ${STATES[block.state]}: ${block.title}`;
}

function Detail(
  { subject, block, changed }: {
    readonly subject: Subject;
    readonly block: PromptBlock;
    readonly changed: () => Promise<void>;
  },
) {
  const [texts, setTexts] = useState<Pick<BlockReport, "now" | "original">>();
  const [trouble, setTrouble] = useState<string>();
  const { id, place, state, tokens, originalTokens } = block;
  useEffect(() => {
    let isOld = false;
    readBlock(subject, id).then(
      (read) => !isOld && setTexts(read),
      (error) => !isOld && setTrouble(sentenceOf(error)),
    );
    return () => isOld = true;
  }, [id, state]);
  const wish = async (wish?: PinReport["wish"]) => {
    setTrouble(undefined);
    try {
      await pin(subject, place!, wish);
      await changed();
    } catch (error) {
      setTrouble(sentenceOf(error));
    }
  };
  return (
    <section class="detail" aria-label="The chosen block">
      <h2>
        <bdi>{nameOf(block)}</bdi>
        <small>{STATES[state]}</small>
        <small>
          {tokens === originalTokens || block.kind === "line"
            ? counted(tokens, "token")
            : `${count(tokens)} of ${counted(originalTokens, "token")}`}
        </small>
      </h2>
      {place !== null && <Wishes block={block} wish={wish} />}
      {trouble !== undefined && <p class="trouble" role="alert">{trouble}</p>}
      {texts && (
        <div class="sides">
          <Side title="In the prompt now" text={texts.now} none="Nothing." />
          {texts.original && state !== "alive" && (
            <Side title="As it was said" text={texts.original} none="" />
          )}
        </div>
      )}
    </section>
  );
}

function Side(
  { title, text, none }: { readonly title: string; readonly text: BlockText | null; readonly none: string },
) {
  return (
    <div>
      <h3>{title}</h3>
      {text ? <Clip text={text.text} label={title} /> : <p>{none}</p>}
      {text && text.chars > text.text.length && (
        <p>The first {count(text.text.length)} of {counted(text.chars, "character")}.</p>
      )}
    </div>
  );
}

function Wishes(
  { block, wish }: { readonly block: PromptBlock; readonly wish: (wish?: PinReport["wish"]) => void },
) {
  const { pin, role, state } = block;
  if (kindOf(block) === "instructions") return null;
  if (pin) {
    const done = pin.state === "done";
    const told = pin.wish === "keep"
      ? (done ? "Kept: it stays in the prompt." : "It comes back at the next rewrite, and stays.")
      : (done ? "Let go: it has left the prompt." : "It leaves at the next rewrite.");
    return (
      <p class="wish">
        <span role="status">{told}</span>
        <button type="button" onClick={() => wish()}>Leave it to the planner</button>
      </p>
    );
  }
  return (
    <p class="wish">
      <button type="button" onClick={() => wish("keep")}>
        {state === "alive" ? "Keep" : "Keep: bring it back"}
      </button>
      {role === "tool" && state !== "elided" && (
        <button type="button" onClick={() => wish("let_go")}>Let go</button>
      )}
    </p>
  );
}

function Left(
  { blocks, choose }: { readonly blocks: readonly PromptBlock[]; readonly choose: (at: number) => void },
) {
  const left = [...blocks.entries()].filter(([, { state, pin }]) => state !== "alive" || pin !== null);
  if (left.length === 0) return <p>All of it is in the prompt as it was said.</p>;
  return (
    <section aria-label="What left, and what was asked for">
      <NumbersTable
        label="Table of blocks"
        heads={["Block", "Begins", "Now", "Was", "State"]}
        rows={left}
        more="More blocks"
        draw={([at, block]) => (
          <tr key={block.id}>
            <th scope="row">
              <button type="button" class="quiet" onClick={() => choose(at)}>
                <bdi>{nameOf(block)}</bdi>
              </button>
            </th>
            <td class="begins">
              <bdi>{block.title}</bdi>
            </td>
            <td>{count(block.tokens)}</td>
            <td>{count(block.originalTokens)}</td>
            <td class="words">
              {block.pin ? (block.pin.wish === "keep" ? "keep" : "let go") : block.state}
            </td>
          </tr>
        )}
      />
    </section>
  );
}
