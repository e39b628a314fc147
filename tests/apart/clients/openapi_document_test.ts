import { assertEquals } from "@std/assert";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { gateway } from "@tare/gateway";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler } from "@tare/server";
import { Keys } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";

const DOCUMENT = new Request("http://localhost/openapi.json");

interface Described {
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, { readonly examples?: readonly unknown[] }>>;
  };
}

interface Operation {
  readonly operationId: string;
  readonly requestBody?: {
    readonly content: Readonly<
      Record<string, { readonly schema: { readonly $ref?: string; readonly examples?: readonly unknown[] } }>
    >;
  };
  readonly responses: Readonly<Record<string, unknown>>;
}

async function documents(): Promise<readonly string[]> {
  const countTokens = () => Promise.resolve(estimateTokens);
  const options = {
    models: {
      ...{ countTokens, profile: profileNamed("none"), windowTokens: 100_000, defaultModel: "none" },
      model: () => {
        throw new Error("It isn't called.");
      },
    },
    tools: [],
    store: memoryStore(),
  };
  const passing = gateway({ upstreams: {}, countTokens });
  const both = [agentHandler(options), agentHandler({ ...options, gateway: passing })];
  return await Promise.all(
    both.map(async ({ unguarded }) => await (await unguarded(DOCUMENT, { caller: Keys.OWNER })).text()),
  );
}

Deno.test("OpenAPI: Redocly finds no errors in the documents and their examples", async () => {
  const config = await createConfig({
    extends: ["recommended"],
    // The recommended rule treats fields of other branches of a schema as additional.
    rules: { "no-invalid-schema-examples": { severity: "error", allowAdditionalProperties: true } },
  });
  for (const source of await documents()) {
    const problems = await lintFromString({ source, absoluteRef: "/openapi.json", config });
    assertEquals(
      problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer]),
      [],
    );
  }
});

Deno.test("OpenAPI: the documents contain a server, an example of each body, and each status of the guard", async () => {
  for (const source of await documents()) {
    const { servers, paths, components }: Described = JSON.parse(source);
    assertEquals(servers.map(({ url }) => url), ["/"]);
    for (const operation of Object.values(paths).flatMap((path) => Object.values(path))) {
      const { operationId, requestBody, responses } = operation;
      const visible = Object.values(requestBody?.content ?? {}).map(({ schema }) => {
        const { examples = [] } = schema.$ref ? components.schemas[schema.$ref.split("/").at(-1)!]! : schema;
        return examples.length;
      });
      assertEquals(visible, requestBody ? [1] : [], operationId);
      const isPublic = ["getHealth", "getReadiness"].includes(operationId);
      const statuses = ["403", "421", "431", "500", ...isPublic ? [] : ["401"]];
      assertEquals(statuses.filter((status) => !(status in responses)), [], operationId);
    }
  }
});
