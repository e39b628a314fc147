import type { AssistantMessage, Content, Message } from "@tare/messages";
import { type TSchema, Type } from "typebox";
import { tagged, textOr } from "../http/schema.ts";

const TEXT = Type.String();

export const USER_CONTENT = Type.Unsafe<Content>(textOr(
  tagged("type", {
    text: Type.Object({ text: TEXT }),
    image_url: Type.Object({ image_url: Type.Object({ url: TEXT, detail: Type.Optional(TEXT) }) }),
    input_audio: Type.Object({ input_audio: Type.Object({ data: TEXT, format: TEXT }) }),
    file: Type.Object({
      file: Type.Object({
        file_data: Type.Optional(TEXT),
        file_id: Type.Optional(TEXT),
        filename: Type.Optional(TEXT),
      }),
    }),
  }),
  1,
));

export const CONTENT = Type.Unsafe<Content>({
  title: "Content",
  ...textOr(Type.Object({ type: TEXT })),
});

const TOOL_CALL: TSchema = {
  title: "ToolCall",
  ...tagged("type", {
    function: Type.Object({ id: TEXT, function: Type.Object({ name: TEXT, arguments: TEXT }) }),
    custom: Type.Object({ id: TEXT, custom: Type.Object({ name: TEXT, input: TEXT }) }),
  }),
};

const TEXT_OR_NULL: TSchema = { type: ["string", "null"] };

/** A reply of the model. Fields that providers add are valid. */
export const ASSISTANT_MESSAGE = Type.Unsafe<AssistantMessage>(Type.Object({
  role: Type.Literal("assistant"),
  content: Type.Optional(Type.Union([CONTENT, Type.Null()])),
  refusal: Type.Optional(TEXT_OR_NULL),
  reasoning_content: Type.Optional(TEXT_OR_NULL),
  tool_calls: Type.Optional(Type.Array(TOOL_CALL)),
  carried: Type.Optional(Type.Object({
    by: Type.Optional(TEXT),
    tokens: Type.Optional(Type.Number({ minimum: 0 })),
    items: Type.Optional(Type.Array(Type.Object({}))),
  }, {
    description:
      "Content that only its provider reads, such as sealed reasoning; it is only sent back to that " +
      "provider.",
  })),
}, { title: "AssistantMessage" }));

const INPUT_MESSAGE = Type.Object({ role: Type.Enum(["system", "developer", "user"]), content: CONTENT });

export const MESSAGE_BY_ROLE: Readonly<Record<Message["role"], TSchema>> = {
  system: INPUT_MESSAGE,
  developer: INPUT_MESSAGE,
  user: INPUT_MESSAGE,
  assistant: ASSISTANT_MESSAGE,
  tool: Type.Object({
    role: Type.Literal("tool"),
    tool_call_id: TEXT,
    content: CONTENT,
    failed: Type.Optional(Type.Boolean({ description: "Whether the call failed." })),
  }),
  function: Type.Object({ role: Type.Literal("function"), name: TEXT, content: TEXT_OR_NULL }),
};

export const MESSAGE = Type.Unsafe<Message>({
  title: "Message",
  oneOf: [...new Set(Object.values(MESSAGE_BY_ROLE))],
});
