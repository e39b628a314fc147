import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { WaitingCall } from "../api/sessions.ts";
import { Clip } from "../parts/clip.tsx";
import type { Said } from "./conversation.ts";

/** Asks whether a call may run, with all that it would run with. */
export function QuestionView({ approval, answer }: {
  readonly approval: WaitingCall;
  /** False if the server didn't take it. */
  readonly answer: (said: Said) => Promise<boolean>;
}): JSX.Element {
  const { callId, name, expiresAtMs } = approval;
  const [reason, setReason] = useState("");
  const [isSent, setSent] = useState(false);
  const box = useRef<HTMLFormElement>(null);
  // Whoever typed when it came goes on typing: only who does nothing else is led here.
  useEffect(() => {
    if (document.activeElement === document.body) box.current?.focus();
  }, []);
  const say = async (decision: Said["decision"]) => {
    setSent(true);
    const why = reason.trim();
    if (!await answer({ decision, ...(decision === "deny" && why !== "" && { reason: why }) })) {
      setSent(false);
    }
  };
  const id = `why-${callId}`;
  return (
    <form
      class="question"
      aria-label={`May ${name} run?`}
      tabIndex={-1}
      ref={box}
      onSubmit={(event) => {
        event.preventDefault();
        say("deny");
      }}
    >
      <p class="asks" role="alert">
        May{" "}
        <b>
          <bdi>{name}</bdi>
        </b>{" "}
        run?
      </p>
      <Clip text={readable(approval.arguments)} label="What it would run with" />
      <p class="until">
        A message instead of an answer denies it, and so does silence until{" "}
        {new Date(expiresAtMs).toLocaleString("en-GB", UNTIL)}.
      </p>
      <div class="answers">
        <button type="button" class="primary" disabled={isSent} onClick={() => say("allow")}>Allow</button>
        <button type="button" disabled={isSent} onClick={() => say("always")}>Always in this session</button>
        <label for={id}>Why not</label>
        <input
          id={id}
          value={reason}
          maxLength={2_000}
          placeholder="The agent reads it"
          onInput={(event) => setReason(event.currentTarget.value)}
        />
        <button type="submit" class="stop" disabled={isSent}>Deny</button>
      </div>
    </form>
  );
}

const UNTIL = { weekday: "short", hour: "2-digit", minute: "2-digit" } as const;

/** Arguments for people: what shows as nothing, or moves what stands beside it, is spelled out. */
function readable(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 2)
    .replaceAll(
      /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
      (char) => char === "\n" ? char : `\\u{${char.codePointAt(0)!.toString(16)}}`,
    );
}
