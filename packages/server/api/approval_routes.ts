import { Type } from "typebox";
import { answerTo } from "../approvals/approvals.ts";
import { json, route } from "../http/route.ts";
import { closed, COUNT } from "../http/schema.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { APPROVAL, approvalBodies, SESSION, sessionBody } from "./session_body.ts";

const APPROVALS = Type.Array(APPROVAL);

export const ANSWER = closed(
  {
    decision: Type.Enum(["allow", "deny", "always"], {
      description:
        "`always` allows calls like this one for the rest of the session: of the same unchanged tool, " +
        "and of the same command; writes to protected paths need approval again.",
    }),
    reason: Type.Optional(Type.String({ maxLength: 10_000, description: "Reason, for the model." })),
  },
  "ApprovalAnswer",
  { decision: "deny", reason: "Use the staging database." },
);

export function approvalRoutes(sessions: Sessions) {
  return [
    route({
      method: "GET",
      path: "/sessions/{id}/approvals",
      operationId: "listApprovals",
      summary: "Lists the calls that wait for approval.",
      responses: {
        200: json("The calls, in order.", closed({ approvals: APPROVALS })),
        404: "There is no such session.",
      },
      async answer({ path: { id } }) {
        return { json: { approvals: approvalBodies((await sessions.get(id)).questions) } };
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/approvals/{approval}",
      operationId: "answerApproval",
      summary: "Approves or denies a call. After the last answer the turn continues.",
      who: "approve",
      body: ANSWER,
      responses: {
        200: json(
          "The session, its pending approvals, and the number of the event after which it continues.",
          closed({ session: SESSION, approvals: APPROVALS, after: COUNT }),
        ),
        404: "There is no such session, or no such pending approval in it.",
        409: "The approval is already answered.",
        429: "The turn would continue, and the limit of running turns is reached. Nothing has changed.",
      },
      async answer({ path: { id, approval }, body, keep, caller }) {
        const session = await sessions.get(id);
        let after = 0;
        await session.answer((questions) => {
          after = session.lastEvent;
          return answerTo(questions, approval, { ...body, key: caller.name });
        });
        keep({ sessionId: id });
        const approvals = approvalBodies(session.questions);
        return { json: { session: sessionBody(session.row), approvals, after } };
      },
    }),
  ];
}
