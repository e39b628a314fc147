/**
 * Measures the page in a real Chromium: `deno task bench:page`. What its files weigh, how soon something is painted, how
 * soon a session of 2,000 messages is open, and how evenly frames come while 1,000 deltas a second arrive.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "./browser_fixture_test.ts";
import { longHistory, startPageServer } from "./server_fixture_test.ts";

const ROUNDS = 9;

const FILES = ["/", "/page.css", "/page.js", "/page.svg"];

/** Deltas of the long answer, one a millisecond, and how long they gather. */
const DELTAS = { count: 8_000, pauseMs: 5 };

await using upstream = startUpstream();
await using server = await startPageServer({ args: ["--base-url", upstream.url] });
const browser = await startBrowser();
try {
  await weigh(server.url);
  console.log(`first paint       ${await median(() => firstPaint(browser, server.at()))} ms`);
  const id = await server.import(longHistory(2_000));
  const address = `${server.at(`/session/${id}`)}`;
  console.log(
    `2,000 messages    ${await median(() =>
      opening(browser, address)
    )} ms from the address to the last message`,
  );
  await streaming(browser, server.at());
} finally {
  await browser.close();
}

async function weigh(url: string): Promise<void> {
  let bytes = 0;
  for (const file of FILES) {
    const body = (await fetch(`${url}${file}`)).body!;
    bytes += (await new Response(body.pipeThrough(new CompressionStream("gzip"))).bytes()).length;
  }
  console.log(`files             ${(bytes / 1000).toFixed(1)} kB compressed`);
}

async function firstPaint(browser: Browser, url: string): Promise<number> {
  return await visit(
    browser,
    url,
    (page) =>
      page.evaluate(() =>
        new Promise<number>((resolve) =>
          new PerformanceObserver((list, watch) => {
            const paint = list.getEntriesByName("first-contentful-paint")[0];
            if (!paint) return;
            watch.disconnect();
            resolve(paint.startTime);
          }).observe({ type: "paint", buffered: true })
        )
      ),
  );
}

async function opening(browser: Browser, address: string): Promise<number> {
  return await visit(browser, address, (page) =>
    page.evaluate(() =>
      new Promise<number>((resolve) => {
        const look = () => {
          if (document.querySelector(".log .reply + .again")) resolve(performance.now());
          else requestAnimationFrame(look);
        };
        look();
      })
    ));
}

/** How long each frame took while the answer came, and how long the page took longer than to the answer's end. */
async function streaming(browser: Browser, url: string): Promise<void> {
  const frames = await visit(browser, url, async (page) => {
    await page.type("textarea", "Write at length.");
    await page.keyboard.press("Enter");
    return await page.evaluate(() =>
      new Promise<{ readonly times: number[]; readonly text: number }>((resolve) => {
        const times: number[] = [];
        const look = (time: number) => {
          const text = document.querySelector(".reply")?.textContent?.length ?? 0;
          if (text > 0) times.push(time);
          if (document.querySelector(".end")) resolve({ times, text });
          else requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
      })
    );
  });
  const gaps = frames.times.slice(1).map((time, at) => time - frames.times[at]!).sort((a, b) => a - b);
  const seconds = (frames.times.at(-1)! - frames.times[0]!) / 1000;
  const [p50, p99, worst] = [gaps[gaps.length >> 1]!, gaps[Math.floor(gaps.length * 0.99)]!, gaps.at(-1)!];
  console.log(
    `${DELTAS.count} deltas       in ${seconds.toFixed(1)} s, ${
      Math.round(DELTAS.count / seconds)
    } a second; a frame takes ` +
      `${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms, at most ${
        worst.toFixed(0)
      } ms; ${frames.text} characters`,
  );
}

async function visit<T>(browser: Browser, address: string, act: (page: Page) => Promise<T>): Promise<T> {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.goto(address);
  const result = await act(page);
  await context.close();
  return result;
}

async function median(measure: () => Promise<number>): Promise<number> {
  const values: number[] = [];
  for (let round = 0; round < ROUNDS; round++) values.push(await measure());
  return Math.round(values.sort((a, b) => a - b)[ROUNDS >> 1]!);
}

/** A provider whose one answer comes in so many deltas, a thousand a second. */
function startUpstream(): AsyncDisposable & { readonly url: string } {
  const encoder = new TextEncoder();
  const frame = (value: unknown) => encoder.encode(`data: ${JSON.stringify(value)}\n\n`);
  const chunk = (delta: object, finish: string | null = null) => ({
    ...{ id: "a", object: "chat.completion.chunk", created: 1, model: "scripted" },
    choices: [{ index: 0, delta, finish_reason: finish }],
  });
  async function* answer() {
    const start = performance.now();
    for (let sent = 0; sent < DELTAS.count;) {
      // By the clock: pauses are never exact.
      for (const due = performance.now() - start; sent < Math.min(due, DELTAS.count); sent++) {
        yield frame(chunk({ content: sent % 40 === 39 ? "**end** of it.\n\n" : `word${sent} ` }));
      }
      await new Promise((resolve) => setTimeout(resolve, DELTAS.pauseMs));
    }
    yield frame(chunk({}, "stop"));
    yield frame({
      ...chunk({}),
      choices: [],
      usage: { prompt_tokens: 100, completion_tokens: 8_000, total_tokens: 8_100 },
    });
    yield encoder.encode("data: [DONE]\n\n");
  }
  const listening = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response(ReadableStream.from(answer()), { headers: { "content-type": "text/event-stream" } }),
  );
  return {
    url: `http://127.0.0.1:${listening.addr.port}/v1`,
    [Symbol.asyncDispose]: () => listening.shutdown(),
  };
}
