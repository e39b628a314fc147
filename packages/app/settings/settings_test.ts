import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { resolve } from "@std/path";
import { HOME_VARIABLES } from "@tare/cli/parts";
import { profileNamed } from "@tare/planner";
import { readSettings, type Settings, settingsHelp, strangeVariables, VARIABLES } from "./settings.ts";

Deno.test("readSettings() applies defaults, and a flag overrides its variable", () => {
  const defaults: Settings = {
    messagesUrl: "https://api.anthropic.com",
    workspace: ".",
    sandbox: "on",
    allowDomains: [],
    unattended: "deny",
    unknownOutcome: "report",
    delegate: false,
    maxSteps: 500,
    maxRunningTurns: 100,
    host: "127.0.0.1",
    allowedHosts: [],
    corsOrigins: [],
    webhookHosts: [],
    endWithinSeconds: 20,
    metrics: "off",
    data: ".tare",
    gatewayStoreMiB: 1024,
    policy: "planner",
    off: [],
    keepAlive: 0,
    truncateTokens: 16_000,
    holdout: 0,
    deferTools: "auto",
    forward: [],
  };
  assertEquals(readSettings([], {}), defaults);
  assertEquals(readSettings([], { TARE_PORT: "", OPENAI_API_KEY: "" }), defaults);
  assertEquals(
    readSettings(["--port", "0", "--without", "schemas, prune"], { TARE_PORT: "9000", TARE_HOST: "::1" }),
    { ...defaults, port: 0, host: "::1", off: ["prune", "schemas"] },
  );
  assertEquals(
    readSettings([], {
      OPENAI_BASE_URL: "http://localhost:11434/v1",
      ANTHROPIC_BASE_URL: "http://localhost:4000",
      ANTHROPIC_API_KEY: "secret",
      TARE_MODEL: "m",
      TARE_PROFILE: "local",
      TARE_DELEGATE: "on",
      TARE_WITHOUT: "recall,programs",
      TARE_HOLDOUT: "0.1",
      TARE_GATEWAY_STORE: "off",
    }),
    {
      ...defaults,
      baseUrl: "http://localhost:11434/v1",
      messagesUrl: "http://localhost:4000",
      messagesKey: "secret",
      model: "m",
      profile: { profile: profileNamed("local") },
      delegate: true,
      off: ["recall", "programs"],
      holdout: 0.1,
      gatewayStoreMiB: 0,
    },
  );
  assertEquals(
    readSettings(["--data", "/data", "--allowed-hosts", "agent.example, Other.example:81"], {
      TARE_FORWARD: "/v1/vector_stores,/v1/fine_tuning/jobs",
      TARE_TOKEN: "secret",
      TARE_CORS_ORIGINS: "https://chat.example,http://localhost:3000,",
    }),
    {
      ...defaults,
      data: "/data",
      token: "secret",
      allowedHosts: ["agent.example", "Other.example:81"],
      corsOrigins: ["https://chat.example", "http://localhost:3000"],
      forward: ["/v1/vector_stores", "/v1/fine_tuning/jobs"],
    },
  );
  for (
    const path of ["vector_stores", "/v1", "/v1/", "/v2/x", "/v1/../x", "/v1/a//b", "/v1/%2e%2e", "/v1/a?b"]
  ) {
    assertThrows(() => readSettings(["--forward", path], {}), RangeError, "paths such as /v1/vector_stores");
  }
});

Deno.test("readSettings() resolves paths from the folder in which a task was started", () => {
  const { workspace, data } = readSettings(["--workspace", "crash", "--data", "c/d"], {
    INIT_CWD: resolve("tests"),
  });
  assertEquals([workspace, data], [resolve("tests/crash"), resolve("tests/c/d")]);
});

Deno.test("readSettings() accepts a provider without a model, for the gateway only", () => {
  const { apiKey, model } = readSettings([], { OPENAI_API_KEY: "sk" });
  assertEquals([apiKey, model], ["sk", undefined]);
});

Deno.test("readSettings() accepts a model of a provider with a key or a custom address", () => {
  for (const name of ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"]) {
    assertEquals(readSettings(["--model", "m"], { [name]: "http://h.example" }).model, "m");
  }
});

Deno.test("readSettings() reports the variable, the value and the valid values", () => {
  const cases: [string[], Record<string, string>, string][] = [
    [[], { TARE_PORT: "70000" }, 'TARE_PORT is "70000". It must be a whole number from 0 to 65535.'],
    [["--port", "x"], {}, '--port is "x". It must be a whole number from 0 to 65535.'],
    [
      [],
      { TARE_WORKSPACE: "/no/such" },
      'TARE_WORKSPACE is "/no/such". It must be a folder that exists.',
    ],
    [
      ["--data", "../app"],
      { TARE_WORKSPACE: "packages/app", INIT_CWD: resolve("packages/app") },
      'TARE_WORKSPACE is "packages/app". It must be a folder that exists.',
    ],
    [
      ["--data", "../app"],
      { INIT_CWD: resolve("packages/app") },
      `TARE_DATA is "${resolve("packages/app")}", the workspace itself, whose files the tools may change`,
    ],
    [
      [],
      { TARE_GATEWAY_STORE: "0" },
      'TARE_GATEWAY_STORE is "0". It must be off, or a whole number from 1 to 100000000.',
    ],
    [[], { TARE_DELEGATE: "no" }, 'TARE_DELEGATE is "no". It must be on or off.'],
    [
      [],
      { TARE_HOLDOUT: "10%" },
      'TARE_HOLDOUT is "10%". It must be a number from 0 to 1, such as 0.1.',
    ],
    [
      ["--keep-alive", "off", "--policy", "classic"],
      {},
      "--keep-alive is set, but the policy classic has no keep-alive. Set another TARE_POLICY, or omit --keep-alive.",
    ],
    [
      [],
      { TARE_POLICY: "none" },
      'TARE_POLICY is "none". It must be one of planner, lossless, eager, classic.',
    ],
    [
      ["--without", "prune,x"],
      {},
      '--without is "prune,x". It must be a comma-separated list of context,prune,schemas,',
    ],
    [
      ["--truncate-at", "0"],
      {},
      '--truncate-at is "0". It must be a whole number from 100 to 100000000.',
    ],
    [[], { TARE_DEFER_TOOLS: "yes" }, 'TARE_DEFER_TOOLS is "yes". It must be one of auto, on, off.'],
    [
      [],
      { TARE_KEEP_ALIVE: "$5" },
      'TARE_KEEP_ALIVE is "$5". It must be off, turns, or dollars a day such as $0.50/day.',
    ],
    [
      ["--keep-alive", "$0/day"],
      {},
      '--keep-alive is "$0/day". It must be off, turns, or dollars a day such as $0.50/day.',
    ],
    [["--holdout", "1.5"], {}, '--holdout is "1.5". It must be a number from 0 to 1, such as 0.1.'],
    [[], { TARE_PROFILE: "x" }, 'TARE_PROFILE is "x". It must be one of anthropic-5m, '],
    [
      [],
      { ANTHROPIC_BASE_URL: "http://localhost:8787" },
      'ANTHROPIC_BASE_URL is "http://localhost:8787", which is this server itself. Set it to the provider\'s address;',
    ],
    [
      [],
      { OPENAI_BASE_URL: "localhost:1", TARE_MODEL: "m" },
      'OPENAI_BASE_URL is "localhost:1". It must be an address such as https://host/v1.',
    ],
    [
      [],
      { TARE_WINDOW: "1e5" },
      'TARE_WINDOW is "1e5". It must be a whole number from 1000 to 100000000.',
    ],
    [
      [],
      { TARE_TOKEN: "sk-secret sk-secret" },
      "TARE_TOKEN is invalid. It must be printable ASCII without spaces and line breaks.",
    ],
    ...["OPENAI_API_KEY", "ANTHROPIC_API_KEY"].map((name): typeof cases[number] => [
      [],
      { [name]: "sk-secret\n" },
      `${name} is invalid. It must be printable ASCII without spaces and line breaks.`,
    ]),
    [
      [],
      { TARE_ALLOWED_HOSTS: "a.example,http://b.example" },
      'TARE_ALLOWED_HOSTS is "a.example,http://b.example". It must be comma-separated host names such as agent.example',
    ],
    ...["*", "null", "chat.example", "https://chat.example/"].map((origin): typeof cases[number] => [
      ["--cors-origins", origin],
      {},
      `--cors-origins is "${origin}". It must be comma-separated origins such as https://chat.example`,
    ]),
    [
      [],
      { TARE_MODEL: "m" },
      'TARE_MODEL is "m", but no provider is set. Set OPENAI_API_KEY, OPENAI_BASE_URL, ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL',
    ],
    [
      ["--effort", "huge"],
      { OPENAI_API_KEY: "sk-secret", TARE_MODEL: "gpt-5.1" },
      '--effort is "huge", but gpt-5.1 supports only none, low, medium, high.',
    ],
    [
      [],
      { OPENAI_API_KEY: "sk-secret", TARE_MODEL: "gpt-4.1", TARE_EFFORT: "low" },
      'TARE_EFFORT is "low", but gpt-4.1 supports no effort.',
    ],
    [
      [],
      { TARE_EFFORT: "50 %" },
      'TARE_EFFORT is "50 %". It must be a word such as low, medium or high.',
    ],
    [
      [],
      { TARE_PROTOCOL: "grpc" },
      'TARE_PROTOCOL is "grpc". It must be one of responses, chat, messages.',
    ],
    [
      ["--protocol", "responses"],
      { ANTHROPIC_API_KEY: "sk-secret", TARE_MODEL: "m" },
      "--protocol is responses, but no provider for it is set. Set OPENAI_API_KEY or OPENAI_BASE_URL too.",
    ],
    [["--prot", "1"], {}, "Unknown option '--prot'"],
    [["--aprovals", "allow"], {}, "Did you mean --approvals?"],
    [["--history-budget", "5"], {}, "See --help all."],
    [["extra"], {}, "extra"],
  ];
  for (const [args, environment, message] of cases) {
    const error = assertThrows(() => readSettings(args, environment), RangeError, message);
    assertEquals(error.message.includes("sk-secret"), false);
  }
});

Deno.test("settingsHelp() lists the ten common settings, or all in groups", () => {
  const variables = (text: string) => text.match(/^ {2}[A-Z][A-Z_]+/gm)!.map((variable) => variable.trim());
  const help = settingsHelp();
  assertEquals(variables(help), [
    ...["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "TARE_MODEL"],
    ...["TARE_WORKSPACE", "TARE_APPROVALS", "TARE_SANDBOX", "TARE_MCP", "TARE_PORT", "TARE_TOKEN"],
  ]);
  assertStringIncludes(help, "\n--help all lists every setting.\n");
  const all = settingsHelp({ all: true });
  const read = VARIABLES.filter((name) => !["PATH", "INIT_CWD", ...HOME_VARIABLES].includes(name));
  assertEquals(variables(all).toSorted(), read.toSorted());
  assertEquals(read.length <= 45, true, `${read.length} settings`);
  for (const part of ["\nStorage:\n", "--base-url", "--without", "--end-within", ". Default: 500"]) {
    assertStringIncludes(all, part);
  }
});

Deno.test("readSettings() reads the model's price, and reports invalid ones", () => {
  const price = (text: string) => readSettings(["--price", text], {}).price;
  assertEquals(readSettings([], {}).price, undefined);
  assertEquals(price("input=3,output=15"), { input: 3, output: 15 });
  assertEquals(price("input=0, output=.5, cacheRead=0.3,cacheWrite=3.75,cacheWriteHour=6"), {
    ...{ input: 0, output: 0.5, cacheRead: 0.3, cacheWrite: 3.75, cacheWriteHour: 6 },
  });
  for (
    const wrong of [
      "3",
      "input=3",
      "input=3,output=x",
      "input=3,output=-1",
      "input=3,output=1,read=1",
      "input=3,output=",
      "input=3=4,output=15",
      "input=3,output=15,output=16",
    ]
  ) {
    assertThrows(
      () => price(wrong),
      RangeError,
      `Cannot start: --price is ${
        JSON.stringify(wrong)
      }. It must be dollars per million tokens such as input=3,`,
    );
  }
});

Deno.test("readSettings() reads the file of the MCP servers, and reports errors without secrets", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/mcp.json`;
    await Deno.writeTextFile(path, '{"mcpServers": {"a": {"command": "x", "cwd": "sub"}}}');
    const servers = [{
      name: "a",
      by: "stdio" as const,
      command: "x",
      args: [],
      env: {},
      cwd: `${folder}/sub`,
    }];
    assertEquals(readSettings(["--mcp", path], {}).mcp, { path, servers });
    assertEquals(readSettings([], { TARE_MCP: "mcp.json", INIT_CWD: folder }).mcp, { path, servers });
    assertThrows(
      () => readSettings(["--mcp", folder], {}),
      RangeError,
      `Cannot start: --mcp is ${JSON.stringify(folder)}. It must be a file such as mcp.json.`,
    );
    await Deno.writeTextFile(
      path,
      '{"mcpServers": {"a": {"command": "x", "env": {"KEY": "planted ${secret}"}}}}',
    );
    assertThrows(
      () => readSettings(["--mcp", path], {}),
      RangeError,
      'Cannot use MCP server "a": env.KEY holds ${…}, which is not replaced here: write the value itself. ' +
        `File: ${path}.`,
    );
    await Deno.writeTextFile(path, '{"mcpServers": {}} // secret');
    const error = assertThrows(
      () => readSettings(["--mcp", path], {}),
      RangeError,
      "Cannot read the MCP servers: the file is not valid JSON. JSON allows no comments and no comma after the last " +
        `entry. File: ${path}.`,
    );
    assertEquals(error.message.includes("secret"), false);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("readSettings() reads a profile's file, and reports errors in it", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/profile.json`;
    await Deno.writeTextFile(path, '{"profile": "deepseek", "read": 0.02}');
    const profile = { ...profileNamed("deepseek"), read: 0.02 };
    assertEquals(readSettings(["--profile", path], {}).profile, { path, profile });
    assertEquals(readSettings([], { TARE_PROFILE: path }).profile, { path, profile });
    for (const missing of [folder, `${path}x`]) {
      assertThrows(
        () => readSettings(["--profile", missing], {}),
        RangeError,
        `Cannot start: --profile is ${JSON.stringify(missing)}. It must be one of anthropic-5m, `,
      );
    }
    await Deno.writeTextFile(path, '{"profile": "deepseek", "read": -1}');
    assertThrows(
      () => readSettings(["--profile", path], {}),
      RangeError,
      `Cannot use the profile: read is -1. It must be a number from 0. File: ${path}.`,
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("readSettings() reads a file of approval rules or the word allow, and reports errors", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/rules.json`;
    const rules = [{ tool: "shell", prefixes: ["git log"], decision: "allow" as const }];
    await Deno.writeTextFile(path, JSON.stringify(rules));
    assertEquals(readSettings(["--approvals", path], {}).approvals, { path, rules });
    const byName = { TARE_APPROVALS: "rules.json", INIT_CWD: folder, TARE_DATA: "data" };
    assertEquals(readSettings([], byName).approvals, { path, rules });
    assertEquals(readSettings(["--approvals=allow"], {}).approvals, {
      rules: [{ tool: "*", decision: "allow" }],
    });
    for (
      const [text, fault] of [
        ["[", "Expected"],
        ['[{"tool": "shell"}]', "rules.0 must have required property 'decision'"],
        ['{"rules": []}', "rules must be array"],
      ] as const
    ) {
      await Deno.writeTextFile(path, text);
      const { message } = assertThrows(() => readSettings(["--approvals", path], {}), RangeError);
      assertStringIncludes(message, text === "[" ? "Cannot read approval rules: " : fault);
      assertStringIncludes(message, `File: ${path}.`);
    }
    for (const missing of [folder, `${path}x`]) {
      assertThrows(
        () => readSettings(["--approvals", missing], {}),
        RangeError,
        `Cannot start: --approvals is ${JSON.stringify(missing)}. It must be a file that exists, or allow.`,
      );
    }
    assertThrows(() => readSettings(["--unattended=ask"], {}), RangeError, "It must be one of deny, allow");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("readSettings() rejects the agent itself as the agent's model", () => {
  assertThrows(
    () => readSettings(["--model=agent"], { OPENAI_API_KEY: "sk-1" }),
    RangeError,
    "Cannot start: --model is \"agent\". It must be the provider's name of the agent's model " +
      "(agent is the agent itself).",
  );
});

Deno.test("strangeVariables() reports unknown settings, with the nearest known one", () => {
  assertEquals(
    strangeVariables([
      "PATH",
      "TARE_PORT",
      "TARE_MODLE",
      "TARE_WORKSAPCE",
      "TARE_FAVOURITE_COLOUR",
      "OPENAI_KEY",
    ]),
    [
      "TARE_MODLE is set, but there is no such setting. Did you mean TARE_MODEL?",
      "TARE_WORKSAPCE is set, but there is no such setting. Did you mean TARE_WORKSPACE?",
      "TARE_FAVOURITE_COLOUR is set, but there is no such setting. tare start --help all lists them.",
    ],
  );
});
