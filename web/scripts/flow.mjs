// Uses the dashboard as a person does, in a real Chromium against a real service that it starts and stops itself.
//   PYTHON=../.venv/bin/python node scripts/flow.mjs
// CHROMIUM names the browser; /usr/bin/chromium unless told.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const PORT = Number(process.env.PORT ?? 5099);
const ADDRESS = `http://127.0.0.1:${PORT}`;
const PYTHON = process.env.PYTHON ?? "../.venv/bin/python";
const folder = mkdtempSync(join(tmpdir(), "memorymark-"));
const TOKEN = "a-token-for-this-test";

/** Starts the service and gives a way to stop it. */
async function serve(...options) {
  const args = [
    "-m",
    "memorymark",
    "serve",
    "--quiet",
    "--port",
    String(PORT),
    "--prediction-workers",
    "1",
    ...options,
  ];
  const child = spawn(PYTHON, args, {
    env: { ...process.env, MEMORYMARK_DATABASE: `sqlite:///${folder}/history.db` },
    stdio: "ignore",
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  for (let tries = 0; tries < 240; tries += 1) {
    if (
      await fetch(`${ADDRESS}/health`).then(
        (response) => response.ok,
        () => false,
      )
    )
      break;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  return { stop: (signal = "SIGTERM") => (child.kill(signal), ended) };
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
const complaints = [];

async function open(address, viewport = { width: 1440, height: 900 }) {
  const page = await (await browser.newContext({ viewport, acceptDownloads: true })).newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // What the service refuses, the browser logs; everything else is a fault of the page.
    if (message.type() === "error" && !/Failed to load resource|ERR_CONNECTION/.test(message.text()))
      complaints.push(message.text());
  });
  await page.goto(ADDRESS + address);
  return page;
}

const headline = (page) => page.getByRole("heading", { level: 1 });
const button = (page, name) => page.getByRole("button", { name });
const choose = async (page, label, text, expected) => {
  await page.getByRole("combobox", { name: label }).click();
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
  assert.equal(await page.getByRole("combobox", { name: label }).inputValue(), expected);
};

const CHECKS = {
  async "three models, from the form to the answer"() {
    for (const [typed, name] of [
      ["bert", "BERT base"],
      ["openai-community/gpt2", "GPT-2"],
      ["resnet", "ResNet-50"],
    ]) {
      const page = await open("/");
      await choose(page, "Model", typed, name);
      await choose(page, "GPU", "l4", "NVIDIA L4");
      await button(page, "Analyze Memory Usage").click();
      await page.getByText("How this was found").waitFor();
      assert.match(await headline(page).innerText(), /Batch \d/);
      await page.reload();
      await page.getByText("How this was found").waitFor();
      await page.context().close();
    }
  },
  async "keyboard only"() {
    const page = await open("/");
    await page.getByRole("combobox", { name: "GPU" }).waitFor();
    await page.waitForFunction(() => document.querySelectorAll("input[role=combobox]")[1].value !== "");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
    await page.getByLabel("Your batch size today").focus();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("24");
    await page.keyboard.press("Enter");
    await page.getByText("How this was found").waitFor();
    await page.context().close();
  },
  async "wrong input is said at its field"() {
    const page = await open("/");
    await page.getByLabel("Your batch size today").fill("0");
    await button(page, "Analyze Memory Usage").click();
    await page.getByText("Enter a whole number, 1 or more.").waitFor();
    await page.context().close();
  },
  async exports() {
    const page = await open("/#/history");
    await page.getByRole("link", { name: /BERT base on L4/ }).click();
    for (const [name, pattern] of [
      ["JSON", /"recommended_batch_size"/],
      ["CSV", /^batch_size,fits/],
      ["HTML report", /^<!doctype html>[^]*<svg/],
    ]) {
      const [download] = await Promise.all([page.waitForEvent("download"), button(page, name).click()]);
      assert.match(readFileSync(await download.path(), "utf8"), pattern);
    }
    await page.context().close();
  },
  async "the $47k lab"() {
    const page = await open("/#/history");
    await page.getByRole("link", { name: /BERT base on L4/ }).click();
    await button(page, "A lab that spends $47k a year").click();
    await page.getByText("You spend $47,000 a year now").waitFor();
    await page.getByText("An assumption, not a measurement").waitFor();
    await page.getByRole("slider", { name: "People who train" }).press("End");
    await page.getByText("500 people").first().waitFor();
    await page.context().close();
  },
  async "two results side by side"() {
    const page = await open("/#/history");
    await page.getByRole("checkbox").nth(0).check();
    await page.getByRole("checkbox").nth(1).check();
    await page.getByRole("link", { name: "Compare 2" }).click();
    await page.getByText("Recommended batch").waitFor();
    assert.equal(await page.locator("thead th").count(), 3);
    await page.context().close();
  },
  async "reload in the middle, wait in line, cancel"() {
    const page = await open("/#/gpus");
    await button(page, "Compare All GPUs").click();
    await page.getByText("up to batch").first().waitFor();
    await page.reload();
    await page.getByText("up to batch").first().waitFor();
    const other = await open("/");
    await button(other, "Analyze Memory Usage").waitFor();
    await other.getByLabel("Your batch size today").fill("77");
    await button(other, "Analyze Memory Usage").click();
    await other
      .getByText(/in the queue/i)
      .first()
      .waitFor();
    await button(other, "Cancel").click();
    await other.getByRole("heading", { name: "Cancelled" }).waitFor();
    await page.getByRole("heading", { name: /Fastest on|both the fastest/ }).waitFor();
    await page.getByRole("radio", { name: "By cost" }).click();
    await page.getByRole("link", { name: "A10", exact: true }).click();
    await page.getByText("Back to all").waitFor();
    await Promise.all([page.context().close(), other.context().close()]);
  },
  async "the server goes away in the middle and comes back"() {
    const page = await open("/#/gpus");
    await page.getByLabel("Your batch size today").fill("3");
    await button(page, "Compare All GPUs").click();
    await page.getByText("up to batch").first().waitFor();
    await service.stop("SIGKILL");
    await page.getByText("reconnecting…", { exact: true }).waitFor();
    await page.getByText("The server cannot be reached").waitFor();
    service = await serve();
    await page.getByRole("heading", { name: "Interrupted" }).waitFor();
    await page.getByText("The server cannot be reached").waitFor({ state: "detached" });
    await page.context().close();
  },
  async "a link to nothing"() {
    const page = await open("/#/job/000000000000");
    await page.getByText("There is no such job").waitFor();
    await button(page, "Dismiss").click();
    await page.getByText("There is no such job").waitFor({ state: "detached" });
    await page.context().close();
  },
  async "a token"() {
    await service.stop();
    service = await serve("--token", TOKEN);
    const page = await open("/");
    await page.getByRole("textbox", { name: "Token" }).fill("wrong");
    await button(page, "Continue").click();
    await page.getByText("That token was not accepted.").waitFor();
    await page.getByRole("textbox", { name: "Token" }).fill(TOKEN);
    await button(page, "Continue").click();
    await page.getByText("Encoder for text classification").waitFor();
    await page.getByLabel("Your batch size today").fill("48");
    await button(page, "Analyze Memory Usage").click();
    await page.getByText("How this was found").waitFor();
    await page.context().close();
  },
  async "360 px to 4K, without sideways scrolling"() {
    await service.stop();
    service = await serve();
    const jobs = (await (await fetch(`${ADDRESS}/jobs?state=done`, { headers: { Accept: "application/json" } })).json())
      .jobs;
    for (const width of [360, 768, 1024, 2560, 3840]) {
      for (const address of ["/", "/#/history", "/#/gpus", ...jobs.slice(0, 4).map((job) => `/#/job/${job.id}`)]) {
        const page = await open(address, { width, height: 900 });
        await page.waitForTimeout(600);
        const extra = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.ok(extra <= 0, `${address} at ${width} px is ${extra} px too wide`);
        await page.context().close();
      }
    }
  },
};

let service = await serve();
let failed = 0;
for (const [name, check] of Object.entries(CHECKS)) {
  const start = Date.now();
  try {
    await check();
    console.log(`ok    ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}: ${error.message}`);
  }
}
for (const complaint of complaints) console.log(`console: ${complaint}`);
await browser.close();
await service.stop();
rmSync(folder, { recursive: true });
process.exit(failed > 0 || complaints.length > 0 ? 1 : 0);
