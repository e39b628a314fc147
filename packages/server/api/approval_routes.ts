import { Type } from "typebox";
import { answerTo } from "../approvals/approvals.ts";
import { json, route } from "../http/route.ts";
import { closed, COUNT } from "../http/schema.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { APPROVAL, approvalBodies, SESSION, sessionBody } from "./session_body.ts";

const APPROVALS = Type.Array(APPROVAL);

/** Body of `POST /tare/v1/sessions/{id}/approvals/{approval}`. */
export const ANSWER = closed(
  {
    decision: Type.Enum(["allow", "deny", "always"], {
      description:
        "`always` allows calls like this one for the rest of the session: of the same tool as long as it doesn't change, and " +
        "of commands the same one; files that are run or obeyed later are asked for again.",
    }),
    reason: Type.Optional(Type.String({ maxLength: 10_000, description: "Why, for the model." })),
  },
  "ApprovalAnswer",
  { decision: "deny", reason: "Use the staging database." },
);

/** The routes that show what is asked before calls run, and take the answers. */
export function approvalRoutes(sessions: Sessions) {
  return [
    route({
      method: "GET",
      path: "/sessions/{id}/approvals",
      operationId: "listApprovals",
      summary: "Lists the calls that wait for somebody to say whether they may run.",
      responses: {
        200: json("The calls, in their order.", closed({ approvals: APPROVALS })),
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
      summary: "Says whether a call may run. With the last answer the turn goes on.",
      who: "approve",
      body: ANSWER,
      responses: {
        200: json(
          "The session, what it still asks, and behind which event it goes on.",
          closed({ session: SESSION, approvals: APPROVALS, after: COUNT }),
        ),
        404: "There is no such session, or it has no such approval any more.",
        409: "Somebody has answered already.",
        429: "The turn would go on, and as many turns run as the server allows. Nothing has happened.",
      },
      async answer({ path: { id, approval }, body, keep, asker }) {
        const session = await sessions.get(id);
        let after = 0;
        await session.answer((questions) => {
          after = session.lastEvent;
          return answerTo(questions, approval, { ...body, key: asker.name });
        });
        keep({ sessionId: id });
        const approvals = approvalBodies(session.questions);
        return { json: { session: sessionBody(session.row), approvals, after } };
      },
    }),
  ];
}
