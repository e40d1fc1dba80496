// Opens every state of the dashboard in a real Chromium, checks it with axe and takes a picture.
//   node scripts/look.mjs <address of a running service> <folder for the pictures> [only these names...]
// CHROMIUM names the browser; /usr/bin/chromium unless told.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [address = "http://127.0.0.1:5001", folder = "/tmp/look", ...only] = process.argv.slice(2);
const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const DESKTOP = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };
const JOB = '{"status":"error","error":"1000 jobs are waiting and no more are taken; ask again later."}';

const post = async (path, body) => {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  return (await fetch(address + path, { method: "POST", headers, body: JSON.stringify(body) })).json();
};
const get = async (path) => (await fetch(address + path, { headers: { Accept: "application/json" } })).json();
const remove = (path) => fetch(address + path, { method: "DELETE" });

async function finished(body) {
  const { job } = await post("/jobs", body);
  for (;;) {
    const now = (await get(`/jobs/${job.id}`)).job;
    if (!["queued", "running"].includes(now.state)) return now.id;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

const QUESTIONS = {
  bert: { model_name: "bert", gpu: "a10", batch_size: 16 },
  bf16: { model_name: "bert", gpu: "a10", batch_size: 16, precision: "bf16" },
  gpt2: { model_name: "openai-community/gpt2", gpu: "h100", precision: "bf16", batch_size: 32 },
  resnet: { model_name: "resnet", gpu: "l4", precision: "bf16", channels_last: true, batch_size: 64 },
  tooLarge: { model_name: "gpt2", gpu: "h100", batch_size: 2000 },
  doesNotFit: { model_name: "bert", gpu: "t4", seq_len: 512, memory_gib: 1 },
  gpus: { model_name: "bert", all_gpus: true },
  lengths: { model_name: "bert", gpu: "a10", seq_lens: [64, 128, 512] },
  advice: { model_name: "bert", gpu: "a10", batch_size: 16, advise: true },
  adviceToFit: { model_name: "bert", gpu: "a10", batch_size: 16, memory_gib: 1.2, advise: true },
  adviceNothing: { model_name: "bert", gpu: "a10", batch_size: 316, precision: "bf16", fused: true, advise: true },
};
/** What transformers writes for a decoder of 1.2 billion parameters. */
const LLAMA = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  hidden_size: 2048,
  intermediate_size: 8192,
  num_hidden_layers: 16,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  vocab_size: 128256,
  tie_word_embeddings: true,
};
const ids = {};
const idOf = async (name) => (ids[name] ??= await finished(QUESTIONS[name]));

/** Starts a slow job, then one that waits behind it. */
const busy = async () => (await post("/jobs", { ...QUESTIONS.gpus, fresh: true })).job.id;
const waitFor = (page, text) => page.getByText(text).first().waitFor({ timeout: 60_000 });
const refuse = (page) =>
  page.route("**/jobs", (route) =>
    route.request().method() === "POST"
      ? route.fulfill({ status: 429, contentType: "application/json", headers: { "Retry-After": "10" }, body: JOB })
      : route.continue(),
  );
const askFromForm = async (page) => {
  await page.goto(`${address}/#/`);
  await page.getByRole("button", { name: "Analyze Memory Usage" }).click();
};

const STATES = {
  empty: async (page) => {
    await page.route("**/jobs?*", (route) => route.fulfill({ json: { status: "success", jobs: [], next: null } }));
    await page.goto(`${address}/#/`);
    await waitFor(page, "Predicted: the server does not have this GPU");
  },
  form: async (page) => {
    await page.goto(`${address}/#/`);
    await page.getByRole("button", { name: "More options" }).click();
    await page.getByRole("combobox", { name: "GPU" }).click();
  },
  config: async (page) => {
    await page.goto(`${address}/#/`);
    await page.getByRole("button", { name: "Paste a config.json" }).click();
    const config = page.getByRole("textbox", { name: "config.json" });
    await config.fill(JSON.stringify(LLAMA, null, 2));
    await config.evaluate((field) => field.scrollTo(0, 0));
    await page.getByRole("radio", { name: /bf16/ }).click();
    await page.getByRole("textbox", { name: "Sequence length" }).fill("512, 1024, 2048");
  },
  // Before the others leave cancelled jobs behind.
  history: async (page) => {
    for (const name of Object.keys(QUESTIONS)) await idOf(name);
    await page.goto(`${address}/#/history`);
    await page.getByRole("checkbox").nth(1).waitFor();
  },
  answer: async (page) => page.goto(`${address}/#/job/${await idOf("bert")}`),
  "no-faster": async (page) => page.goto(`${address}/#/job/${await idOf("resnet")}`),
  "too-large": async (page) => page.goto(`${address}/#/job/${await idOf("tooLarge")}`),
  running: async (page) => {
    // A prediction is over in seconds: its real events, held after the thirteenth.
    const id = await idOf("bert");
    const { job } = await get(`/jobs/${id}`);
    const { events } = await get(`/jobs/${id}/events`);
    const late = Date.now() - Date.parse(events[12].at) - 400;
    const shifted = events
      .slice(0, 13)
      .map((event) => ({ ...event, at: new Date(Date.parse(event.at) + late).toISOString() }));
    const early = shifted.map((event) => `id: ${event.id}\nevent: ${event.event}\ndata: ${JSON.stringify(event)}\n\n`);
    await page.route(`**/jobs/${id}`, (route) =>
      route.fulfill({ json: { status: "success", reused: false, job: { ...job, state: "running", result: null } } }),
    );
    await page.route(`**/jobs/${id}/events`, (route) =>
      route.fulfill({ contentType: "text/event-stream", body: early.join("") }),
    );
    await page.goto(`${address}/#/job/${id}`);
    await waitFor(page, "Timing batch sizes");
    await page.waitForTimeout(800);
  },
  queued: async (page, cleanup) => {
    const before = [await busy(), await busy()];
    const { job } = await post("/jobs", { ...QUESTIONS.gpt2, fresh: true });
    cleanup.push(...before, job.id);
    await page.goto(`${address}/#/job/${job.id}`);
    await waitFor(page, "in the queue");
    await waitFor(page, "Samples per second, as soon as");
  },
  cancelled: async (page) => {
    const before = await busy();
    const { job } = await post("/jobs", { ...QUESTIONS.gpt2, fresh: true });
    await page.goto(`${address}/#/job/${job.id}`);
    await page.getByRole("button", { name: "Cancel" }).click();
    await waitFor(page, "Run again");
    await remove(`/jobs/${before}`);
  },
  "does-not-fit": async (page) => page.goto(`${address}/#/job/${await idOf("doesNotFit")}`),
  gpus: async (page) => page.goto(`${address}/#/job/${await idOf("gpus")}`),
  lengths: async (page) => page.goto(`${address}/#/job/${await idOf("lengths")}`),
  advice: async (page) => page.goto(`${address}/#/job/${await idOf("advice")}`),
  "advice-to-fit": async (page) => page.goto(`${address}/#/job/${await idOf("adviceToFit")}`),
  "advice-nothing": async (page) => page.goto(`${address}/#/job/${await idOf("adviceNothing")}`),
  "advice-running": async (page, cleanup) => {
    const { job } = await post("/jobs", { ...QUESTIONS.advice, fresh: true });
    cleanup.push(job.id);
    await page.goto(`${address}/#/job/${job.id}`);
    await page.getByText("samples/s, predicted").nth(2).waitFor({ timeout: 60_000 });
  },
  "gpus-form": async (page) => page.goto(`${address}/#/gpus`),
  "gpus-running": async (page, cleanup) => {
    const id = await busy();
    cleanup.push(id);
    await page.goto(`${address}/#/job/${id}`);
    await page.getByText("up to batch").nth(3).waitFor({ timeout: 60_000 });
  },
  compare: async (page) => {
    const list = [await idOf("bert"), await idOf("bf16"), await idOf("gpt2")];
    await page.goto(`${address}/#/compare?ids=${list.join(",")}`);
  },
  // Run `memorymark sweep` with the service's history before: the service itself runs none.
  sweeps: async (page) => page.goto(`${address}/#/sweeps`),
  sweep: async (page) => {
    const { sweeps } = await get("/sweeps");
    await page.goto(`${address}/#/sweep/${sweeps[0]?.id}?sort=cost`);
  },
  "compare-empty": async (page) => page.goto(`${address}/#/compare`),
  error: async (page) => {
    await refuse(page);
    await askFromForm(page);
    await waitFor(page, "The queue is full");
  },
  unreachable: async (page) => {
    await page.goto(`${address}/#/`);
    await page.waitForTimeout(800);
    await page.route("**/health", (route) => route.abort());
    await page.route("**/jobs", (route) => route.abort());
    await page.getByRole("button", { name: "Analyze Memory Usage" }).click();
    await waitFor(page, "The server cannot be reached");
  },
  "unknown-job": async (page) => page.goto(`${address}/#/job/000000000000`),
  token: async (page) => {
    await page.route("**/models", (route) =>
      route.fulfill({ status: 401, json: { status: "error", error: "this service requires a token." } }),
    );
    await page.goto(`${address}/#/`);
    await waitFor(page, "This server requires a token");
  },
};

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
let problems = 0;
for (const [name, open] of Object.entries(STATES)) {
  if (only.length > 0 && !only.includes(name)) continue;
  for (const [prefix, viewport] of [
    ["", DESKTOP],
    ["phone-", PHONE],
  ]) {
    const context = await browser.newContext({
      viewport,
      reducedMotion: "reduce",
      bypassCSP: true,
      deviceScaleFactor: 1,
    });
    const page = await context.newPage();
    const cleanup = [];
    page.on("pageerror", (error) => console.log(`${prefix}${name}: ${error}`, (problems += 1)));
    page.on("console", (message) => {
      if (message.type() === "error" && !message.text().includes("Failed to load resource")) {
        console.log(`${prefix}${name}: console: ${message.text()}`, (problems += 1));
      }
    });
    await open(page, cleanup);
    if (!["running", "gpus-running", "advice-running", "queued"].includes(name)) await page.waitForTimeout(1_200);
    await page.screenshot({
      path: `${folder}/${prefix}${name}.png`,
      // In a picture that is longer than a screen, the form's button would stand in the middle of it.
      style: "form .sticky { position: static !important; }",
      fullPage: !["running", "queued", "form", "unreachable", "token"].includes(name) || prefix !== "",
    });
    const sideways = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    if (sideways > 0) console.log(`${prefix}${name}: ${sideways} px too wide`, (problems += 1));
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => window.axe.run());
    for (const violation of violations) {
      problems += 1;
      console.log(
        `${prefix}${name}: ${violation.id}: ${violation.nodes.map((node) => node.html.slice(0, 160)).join("\n    ")}`,
      );
    }
    for (const id of cleanup) await remove(`/jobs/${id}`);
    await context.close();
  }
  console.log(`looked at ${name}`);
}
await browser.close();
process.exit(problems > 0 ? 1 : 0);
