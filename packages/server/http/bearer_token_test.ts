import { assertEquals } from "@std/assert";
import { bearerToken } from "./bearer_token.ts";

Deno.test("bearerToken() takes its token under any spelling of the scheme, and nothing else", async () => {
  const isLetIn = bearerToken("secret");
  const by = (authorization?: string) =>
    isLetIn(
      new Request("http://localhost", { headers: authorization === undefined ? {} : { authorization } }),
    );
  for (const right of ["Bearer secret", "bearer secret", "BEARER  secret"]) {
    assertEquals(await by(right), true);
  }
  for (
    const wrong of [
      undefined,
      "",
      "Bearer",
      "Bearer ",
      "secret",
      "Basic secret",
      "Bearer secre",
      "Bearer secrets",
    ]
  ) assertEquals(await by(wrong), false, wrong);
});
