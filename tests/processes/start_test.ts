import { assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { otlpReceiver } from "../telemetry/otlp_receiver.ts";
import { startCommand, startProcess } from "../../packages/app/server_process_fixture_test.ts";

Deno.test("start.ts reuses the folder's last port, or another one if it is taken", async () => {
  const folder = await Deno.makeTempDir();
  const given = ["--workspace", folder, "--data", join(folder, "data")];
  const first = await startProcess(["--port", "0", ...given]);
  await first.end("SIGTERM");
  const again = await startProcess(given);
  assertEquals(again.url, first.url);
  await again.end("SIGTERM");
  const taken = Deno.serve(
    { port: Number(new URL(first.url).port), hostname: "127.0.0.1", onListen() {} },
    () => new Response("taken"),
  );
  const elsewhere = await startProcess(given);
  assertNotEquals(elsewhere.url, first.url);
  assertEquals((await (await fetch(`${elsewhere.url}/health`)).json()).status, "ok");
  await elsewhere.end("SIGTERM");
  await taken.shutdown();
  await Deno.remove(folder, { recursive: true });
});

Deno.test("start.ts reads a custom profile from any file", async () => {
  const folder = await Deno.makeTempDir();
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, '{"profile": "openai", "name": "openai, measured"}');
  const server = await startProcess([
    ...["--port", "0", "--workspace", folder, "--data", join(folder, "data")],
    ...["--profile", file],
  ]);
  const { code, stdout, stderr } = await server.end("SIGTERM");
  assertEquals([code, stderr], [0, ""]);
  assertStringIncludes(stdout, "\nprofile    openai, measured\n");
  await Deno.remove(folder, { recursive: true });
  await Deno.remove(file);
});

Deno.test("start.ts reports invalid settings without secrets", async () => {
  const cases: [string[], Record<string, string>, string][] = [
    [["--port", "x"], {}, '--port is "x". It must be a whole number'],
    [["--host", "0.0.0.0", "--port", "0"], {}, 'TARE_HOST is "0.0.0.0", which other machines can reach'],
    [
      [],
      { TARE_TOKEN: "planted secret" },
      "TARE_TOKEN is invalid. It must be printable ASCII",
    ],
  ];
  for (const [args, env, sentence] of cases) {
    const { code, stdout, stderr } = await startCommand(args, env).output();
    const [output, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    assertEquals([code, output], [1, ""]);
    assertStringIncludes(errors!, sentence);
    assertEquals(errors!.includes("planted"), false);
  }
});

Deno.test("start.ts warns of unknown TARE_ variables, and starts", async () => {
  const folder = await Deno.makeTempDir();
  const server = await startProcess(
    ["--port", "0", "--workspace", folder, "--data", join(folder, "data")],
    { TARE_MODLE: "planted" },
  );
  const { code, stderr } = await server.end("SIGTERM");
  assertEquals([code, stderr], [
    0,
    "TARE_MODLE is set, but there is no such setting. Did you mean TARE_MODEL?\n",
  ]);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("start.ts --help lists the settings", async () => {
  const { code, stdout } = await startCommand(["--help"]).output();
  assertEquals(code, 0);
  assertStringIncludes(new TextDecoder().decode(stdout), "TARE_WORKSPACE");
});

Deno.test("start.ts exports telemetry under its own service name, and no console output", async () => {
  const folder = await Deno.makeTempDir();
  const attributes = async (env: Record<string, string>) => {
    const receiver = otlpReceiver();
    const server = await startProcess(
      ["--port", "0", "--workspace", folder, "--data", join(folder, "data")],
      {
        ...{ OTEL_DENO: "true", ...receiver.env },
        ...env,
      },
    );
    await (await fetch(`${server.url}/health`)).body?.cancel();
    assertEquals((await server.end("SIGTERM")).code, 0);
    await receiver.close();
    assertEquals(receiver.paths.has("/v1/logs"), false);
    const names = ["service.name", "service.instance.id", "place"];
    const values = receiver.resources().map((all) => names.map((name) => all[name]?.[1]));
    // The parent process also reports its memory.
    return values.filter(([, id]) => id !== undefined);
  };
  const own = await attributes({});
  assertEquals(new Set(own.map(([name]) => name)), new Set(["tare"]));
  const [, id] = own[0]!;
  const env = { OTEL_SERVICE_NAME: "theirs", OTEL_RESOURCE_ATTRIBUTES: "place=here" };
  const [other] = await attributes(env);
  assertEquals([other![0], other![1] === id, other![2]], ["theirs", false, "here"]);
  await Deno.remove(folder, { recursive: true });
});
