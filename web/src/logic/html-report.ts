// A result as one HTML file that needs nothing else: no script, no font, no network.
import {
  isAdvice,
  isComparison,
  isSweep,
  type Advice,
  type Analysis,
  type Comparison,
  type Result,
  type Sweep,
} from "../api/types";
import { batchNotes, batchWords, changeWords, predictedBeside, todayTrial } from "./advice";
import { SYNTHETIC, currentTrial, efficiencyPercent, maximumTrial, priceWords, recommendedTrial } from "./analysis";
import {
  PARTS,
  answerColumns,
  fastBand,
  limitGib,
  partsShown,
  throughputPoints,
  type MemoryColumn,
} from "./chart-data";
import * as show from "./format";
import {
  adviceDetail,
  adviceHeadline,
  analysisDetail,
  analysisHeadline,
  comparisonHeadline,
  sweepHeadline,
} from "./headline";
import { sentence } from "./problems";
import { recipeWords } from "./recipe";

const STYLE = `
:root{color-scheme:dark}*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1rem 4rem;max-width:60rem;background:#0a0a0a;color:#ededed;font:16px/1.5 Inter,system-ui,sans-serif}
h1{font-size:1.9rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.1rem;margin:2rem 0 .75rem}
p{margin:.4rem 0}.soft{color:#a3a3a3}.good{color:#00ff88}.bad{color:#ff6b6b}
.card{background:#1a1a1a;border:1px solid #2a2a2a;border-radius:12px;padding:1.25rem;overflow-x:auto}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:1rem}
.facts b{display:block;font-size:1.5rem}.bar{height:1.25rem;border-radius:4px;background:#333;overflow:hidden;margin:.25rem 0 1rem}
.bar i{display:block;height:100%}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.35rem .6rem;border-bottom:1px solid #2a2a2a;white-space:nowrap}th:first-child,td:first-child{text-align:left}td:first-child{min-width:9rem;white-space:normal}
pre{margin:0;font:13px/1.6 ui-monospace,monospace}dt{color:#a3a3a3}dd{margin:0 0 .6rem}th{color:#a3a3a3;font-weight:500}svg{display:block;width:100%;height:auto;min-width:30rem}svg text{fill:#a3a3a3;font-size:12px}
ul.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1rem;font-size:.85rem}
ul.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
@media print{:root{color-scheme:light}body{background:#fff;color:#000}.card{background:#fff}}`;

export function reportOf(result: Result, model: string, when: string): string {
  if (isAdvice(result)) return adviceReport(result, model, when);
  if (isComparison(result)) return comparisonReport(result, model, when);
  return isSweep(result) ? sweepReport(result, model, when) : analysisReport(result, model, when);
}

export function analysisReport(analysis: Analysis, model: string, when: string): string {
  const headline = analysisHeadline(analysis);
  const recommended = recommendedTrial(analysis);
  const maximum = maximumTrial(analysis);
  const facts: [string, string][] = [
    ["Today's batch", show.count(analysis.current_batch_size)],
    ["Maximum batch", show.count(analysis.max_batch_size)],
    [
      "Recommended batch",
      analysis.recommended_batch_size === null ? "none" : show.count(analysis.recommended_batch_size),
    ],
    ["Speedup", analysis.speedup === null ? "not known" : show.speedup(analysis.speedup)],
    ["Saved per run", money(analysis.cost_savings_per_run)],
    ["Saved per year", money(analysis.cost_savings_annual)],
  ];
  const usage = analysis.usage;
  return page(
    `${model} on ${analysis.gpu_name}`,
    html`<p class="soft">MemoryMark, GPU memory waste report, ${when}</p>
      <h1>${headline.sentence}</h1>
      <p>${analysisDetail(analysis)}</p>
      <p class="soft">${[model, analysis.sample, ...recipeWords(analysis.recipe)].join(" · ")}</p>
      <h2>Memory</h2>
      <div class="card">
        ${bar("Today", currentTrial(analysis)?.peak_allocated_bytes ?? null, analysis, "#ff4444", analysis.current_waste_percent, "wasted")}
        ${bar("Maximum", maximum?.peak_allocated_bytes ?? null, analysis, "#00ff88", efficiencyPercent(analysis), "used")}
      </div>
      <h2>Answer</h2>
      <div class="card facts">
        ${facts.map(([name, value]) => html`<div><span class="soft">${name}</span><b>${value}</b></div>`)}
      </div>
      <p class="soft">
        Savings: ${priceWords(analysis) ?? "no price is known"}, ${show.short(usage.hours_per_run)} h a run,
        ${show.short(usage.runs_per_year)} runs a year, ${show.count(usage.people)}
        ${usage.people === 1 ? "person" : "people"}.
      </p>
      <h2>Memory by batch size</h2>
      <div class="card">${memorySvg(answerColumns(analysis), limitGib(analysis))}</div>
      <h2>Throughput by batch size</h2>
      <div class="card">${throughputSvg(analysis)}</div>
      <h2>Trials</h2>
      <div class="card">${trialTable(analysis)}</div>
      <h2>How this was found</h2>
      <p class="soft">
        ${SYNTHETIC} ${recommended?.intervals ? "Predicted numbers come with intervals; see the trials." : ""} GiB means
        2^30 bytes.
        ${Object.entries(analysis.versions)
          .map(([name, version]) => `${name} ${version}`)
          .join(", ")}.
      </p>`,
  );
}

export function comparisonReport(comparison: Comparison, model: string, when: string): string {
  const rows = comparison.gpus.map(
    (gpu) =>
      html`<tr>
        <td>${gpu.gpu_name}</td>
        <td>${gpu.fits ? show.count(gpu.max_batch_size ?? 0) : "does not fit"}</td>
        <td>${gpu.recommended_batch_size === null ? "" : show.count(gpu.recommended_batch_size)}</td>
        <td>${gpu.samples_per_second === null ? "" : show.perSecond(gpu.samples_per_second)}</td>
        <td>${gpu.usd_per_million_samples === null ? "" : show.dollars(gpu.usd_per_million_samples)}</td>
        <td>${gpu.price ? `$${gpu.price.usd_per_hour}/h` : ""}</td>
      </tr>`,
  );
  return page(
    `${model} on every GPU`,
    html`<p class="soft">MemoryMark, all GPUs, ${when}</p>
      <h1>${comparisonHeadline(comparison).sentence}</h1>
      <p class="soft">${[model, ...recipeWords(comparison.recipe), "predicted"].join(" · ")}</p>
      <div class="card">
        <table>
          <thead>
            <tr>
              <th>GPU</th>
              <th>Maximum</th>
              <th>Recommended</th>
              <th>Samples/s</th>
              <th>$ per million samples</th>
              <th>Price</th>
            </tr>
          </thead>
          <tbody>
            ${rows}
          </tbody>
        </table>
      </div>
      <p class="soft">${SYNTHETIC}</p>`,
  );
}

export function sweepReport(sweep: Sweep, model: string, when: string): string {
  const rows = sweep.lengths.map(
    (length) =>
      html`<tr>
        <td>${length.seq_len}</td>
        <td>${length.fits ? show.count(length.max_batch_size ?? 0) : "does not fit"}</td>
        <td>${length.recommended_batch_size === null ? "" : show.count(length.recommended_batch_size)}</td>
        <td>${length.samples_per_second === null ? "" : show.perSecond(length.samples_per_second)}</td>
        <td>${length.lost === null ? "" : show.percent(100 * length.lost, 0)}</td>
      </tr>`,
  );
  return page(
    `${model} at several lengths`,
    html`<p class="soft">MemoryMark, several lengths, ${when}</p>
      <h1>${sweepHeadline(sweep).sentence}</h1>
      <p class="soft">${[model, sweep.gpu_name, ...recipeWords(sweep.recipe), sweep.source].join(" · ")}</p>
      <div class="card">
        <table>
          <thead>
            <tr>
              <th>Tokens</th>
              <th>Maximum</th>
              <th>Recommended</th>
              <th>Samples/s</th>
              <th>Lost at the planned batch</th>
            </tr>
          </thead>
          <tbody>
            ${rows}
          </tbody>
        </table>
      </div>
      ${sweep.advice.map((line) => html`<p>${line}</p>`)}
      <p class="soft">${SYNTHETIC}</p>`,
  );
}

export function adviceReport(advice: Advice, model: string, when: string): string {
  const today = todayTrial(advice);
  const best = advice.worth_changing ? advice.options[0] : undefined;
  const number = (value: number | null | undefined, words: (value: number) => string) =>
    html`<td>${value === null || value === undefined ? "" : words(value)}</td>`;
  const rows = advice.options.map((option) => {
    const predicted = predictedBeside(option);
    const how = option.source + (predicted === null ? "" : ` (${show.gain(predicted)} predicted)`);
    return html`<tr>
      <td>${changeWords(option)}</td>
      ${number(option.gain, show.gain)}
      <td>${how}</td>
      <td>${batchWords(option.batch_size, option)}</td>
      ${number(option.samples_per_second, show.perSecond)} ${number(option.memory_gb * show.GIB, show.bytes)}
      ${number(option.usd_per_million_samples, show.dollars)} ${number(option.cost_savings_annual, show.dollars)}
    </tr>`;
  });
  const last = html`<tr>
    <td>today: ${recipeWords(advice.recipe).join(", ")}</td>
    ${number(today ? 1 : null, show.gain)}
    <td>${today ? today.source : "does not fit"}</td>
    <td>${batchWords(advice.current_batch_size, advice.recipe)}</td>
    ${number(today?.samples_per_second, show.perSecond)} ${number(today?.peak_allocated_bytes, show.bytes)}
    ${number(advice.today.usd_per_million_samples, show.dollars)}
    <td></td>
  </tr>`;
  const listed = (pairs: [string, string][]) =>
    html`<dl class="card">${pairs.map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl>`;
  return page(
    `What to change: ${model} on ${advice.gpu_name}`,
    html`<p class="soft">MemoryMark, what to change, ${when}</p>
      <h1>${adviceHeadline(advice).sentence}</h1>
      <p>${adviceDetail(advice)}</p>
      <p class="soft">${[model, advice.sample, ...recipeWords(advice.recipe)].join(" · ")}</p>
      <h2>${advice.fits_today ? "Ways to train, the best first" : "Ways to make it fit, the least change first"}</h2>
      <div class="card">
        <table>
          <thead>
            <tr>
              <th>Change</th>
              <th>Gain</th>
              <th>Source</th>
              <th>Batch</th>
              <th>Samples/s</th>
              <th>Memory</th>
              <th>$/million</th>
              <th>Saved/year</th>
            </tr>
          </thead>
          <tbody>
            ${rows}${last}
          </tbody>
        </table>
      </div>
      ${
        best
          ? html`<h2>What the first one costs</h2>
              ${listed(best.costs.map(({ change, cost }) => [change, cost]))}
              ${batchNotes(advice, best).map((note) => html`<p>${note}</p>`)}
              <h2>Its code for PyTorch</h2>
              <div class="card"><pre>${best.code.pytorch}</pre></div>`
          : ""
      }
      ${
        advice.faults?.length
          ? html`<h2>Could not be looked at</h2>
              ${listed(advice.faults.map(({ title, reason }) => [title, sentence(reason)]))}`
          : ""
      }
      ${
        advice.refused.length > 0
          ? html`<h2>Looked at and left</h2>
              ${listed(advice.refused.map(({ title, why }) => [title, sentence(why)]))}`
          : ""
      }
      <p class="soft">${SYNTHETIC}</p>`,
  );
}

/** Text that is already HTML. */
class Html {
  constructor(readonly text: string) {}
}

/** Puts values into HTML; all but HTML itself is escaped. */
function html(strings: TemplateStringsArray, ...values: (string | number | Html | Html[])[]): Html {
  const put = (value: string | number | Html) => (value instanceof Html ? value.text : escaped(String(value)));
  const shown = values.map((value) => (Array.isArray(value) ? value.map(put).join("") : put(value)));
  return new Html(String.raw({ raw: strings }, ...shown));
}

export function escaped(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => names[character]!);
}

function page(title: string, body: Html): string {
  const style = new Html(`<style>${STYLE}</style>`);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · MemoryMark</title>
        ${style}
      </head>
      <body>
        ${body}
      </body>
    </html> `.text;
}

function money(value: number | null): string {
  return value === null ? "not known" : show.dollars(value);
}

function bar(
  label: string,
  used: number | null,
  analysis: Analysis,
  color: string,
  percent: number | null,
  word: string,
): Html {
  if (used === null || percent === null) return html`<div>${label}: does not fit or was not tried</div>`;
  const width = word === "wasted" ? 100 - percent : percent;
  const total = show.bytes(analysis.gpu_total_gb * show.GIB);
  const style = new Html(`width:${width.toFixed(1)}%;background:${color}`);
  return html`<div>${label}: ${show.bytes(used)} of ${total}, ${show.percent(percent)} ${word}</div>
    <div class="bar"><i style="${style}"></i></div>`;
}

const WIDTH = 720;
const HEIGHT = 280;
const BOX = { left: 56, right: 12, top: 12, bottom: 40 };
const INNER = { width: WIDTH - BOX.left - BOX.right, height: HEIGHT - BOX.top - BOX.bottom };

function svg(label: string, content: Html[]): Html {
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${content}</svg>`;
}

function memorySvg(columns: MemoryColumn[], limit: number): Html {
  const parts = partsShown(columns);
  const most = Math.max(limit, ...columns.map((column) => column.total)) * 1.05;
  const y = (gib: number) => BOX.top + INNER.height * (1 - gib / most);
  const slot = INNER.width / Math.max(columns.length, 1);
  const shapes = columns.flatMap((column, index) => {
    const x = BOX.left + slot * (index + 0.15);
    const rect = (from: number, to: number, color: string) =>
      html`<rect
        x="${x}"
        y="${y(to)}"
        width="${slot * 0.7}"
        height="${Math.max(y(from) - y(to), 0)}"
        fill="${color}"
      />`;
    const label = html`<text x="${x + slot * 0.35}" y="${HEIGHT - 22}" text-anchor="middle">${column.batch}</text>`;
    if (column.failed !== undefined) return [rect(0, column.failed, "#ff444466"), label];
    let from = 0;
    const stack = parts.map((part) => {
      const to = from + (column[part.name] ?? 0);
      const shape = rect(from, to, part.color);
      from = to;
      return shape;
    });
    return [...stack, label];
  });
  const line = html`<line
      x1="${BOX.left}"
      x2="${WIDTH - BOX.right}"
      y1="${y(limit)}"
      y2="${y(limit)}"
      stroke="#ededed"
      stroke-dasharray="5 4"
    />
    <text x="${BOX.left - 6}" y="${y(limit) + 4}" text-anchor="end">${limit.toFixed(1)}</text>
    <text x="${BOX.left - 6}" y="${y(0)}" text-anchor="end">0 GiB</text>
    <text x="${WIDTH / 2}" y="${HEIGHT - 4}" text-anchor="middle">batch size; the dashed line is all there is</text>`;
  const legend = parts.map((part) => {
    const style = new Html(`background:${part.color}`);
    return html`<li><i style="${style}"></i>${part.label}</li>`;
  });
  return html`${svg("Memory by batch size, stacked by part; the numbers are in the table of trials.", [...shapes, line])}
    <ul class="legend">
      ${legend}
    </ul>`;
}

function throughputSvg(analysis: Analysis): Html {
  const points = throughputPoints(analysis.trials);
  const band = fastBand(points, analysis.thrashing_batch_sizes);
  if (!band) return html`<p>No batch size was timed.</p>`;
  const most = band[1] * 1.08;
  const logs = points.map((point) => Math.log2(point.batch));
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  const x = (batch: number) => BOX.left + INNER.width * (high > low ? (Math.log2(batch) - low) / (high - low) : 0.5);
  const y = (speed: number) => BOX.top + INNER.height * (1 - speed / most);
  const path = points.map((point) => `${x(point.batch).toFixed(1)},${y(point.speed).toFixed(1)}`).join(" ");
  const dots = points.map((point) => {
    const isBest = point.batch === analysis.recommended_batch_size;
    return html`<circle
        cx="${x(point.batch)}"
        cy="${y(point.speed)}"
        r="${isBest ? 6 : 3}"
        fill="${isBest ? "#00ff88" : "#5b93ff"}"
      />
      <text x="${x(point.batch)}" y="${HEIGHT - 22}" text-anchor="middle">${point.batch}</text>`;
  });
  return svg("Samples per second by batch size; the numbers are in the table of trials.", [
    html`<rect
      x="${BOX.left}"
      y="${y(band[1])}"
      width="${INNER.width}"
      height="${y(band[0]) - y(band[1])}"
      fill="#00ff8822"
    />`,
    html`<polyline points="${path}" fill="none" stroke="#5b93ff" stroke-width="2" />`,
    ...dots,
    html`<text x="${BOX.left - 6}" y="${y(band[1]) + 4}" text-anchor="end">${show.perSecond(band[1])}</text>
      <text x="${BOX.left - 6}" y="${y(0)}" text-anchor="end">0</text>
      <text x="${WIDTH / 2}" y="${HEIGHT - 4}" text-anchor="middle"
        >batch size; samples per second; green: within 5 % of the best</text
      >`,
  ]);
}

function trialTable(analysis: Analysis): Html {
  const rows = analysis.trials.map((trial) => {
    const between = trial.intervals?.["samples_per_second"];
    const speed = trial.samples_per_second === null ? "" : show.perSecond(trial.samples_per_second);
    const parts = PARTS.map((part) => html`<td>${trial.breakdown ? show.bytes(trial.breakdown[part.name]) : ""}</td>`);
    return html`<tr>
      <td>${trial.batch_size}</td>
      <td>${trial.fits ? "fits" : "fails"}</td>
      <td>${show.bytes(trial.peak_allocated_bytes)}</td>
      <td>${speed}</td>
      <td>${between ? `${show.perSecond(between[0])} to ${show.perSecond(between[1])}` : ""}</td>
      ${parts}
    </tr>`;
  });
  return html`<table>
    <thead>
      <tr>
        <th>Batch</th>
        <th></th>
        <th>Peak allocated</th>
        <th>Samples/s</th>
        <th>between</th>
        ${PARTS.map((part) => html`<th>${part.label}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`;
}
