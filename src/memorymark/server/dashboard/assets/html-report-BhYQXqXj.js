import{A as e,B as t,C as n,D as r,E as i,F as a,H as o,I as s,L as c,M as l,N as u,O as d,P as f,R as p,T as m,V as h,_ as g,a as _,b as v,d as y,f as b,g as x,h as S,i as C,j as w,k as T,m as E,n as D,o as O,p as k,t as A,u as j,v as M,w as N,x as P,y as F,z as I}from"./index-CkhZaTFZ.js";var L=`
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
@media print{:root{color-scheme:light}body{background:#fff;color:#000}.card{background:#fff}}`;function R(e,n,r){return t(e)?H(e,n,r):h(e)?B(e,n,r):o(e)?V(e,n,r):z(e,n,r)}function z(e,t,a){let o=E(e),l=d(e),u=i(e),f=[[`Today's batch`,w(e.current_batch_size)],[`Maximum batch`,w(e.max_batch_size)],[`Recommended batch`,e.recommended_batch_size===null?`none`:w(e.recommended_batch_size)],[`Speedup`,e.speedup===null?`not known`:c(e.speedup)],[`Saved per run`,q(e.cost_savings_per_run)],[`Saved per year`,q(e.cost_savings_annual)]],h=e.usage;return K(`${t} on ${e.gpu_name}`,W`<p class="soft">MemoryMark, GPU memory waste report, ${a}</p>
      <h1>${o.sentence}</h1>
      <p>${k(e)}</p>
      <p class="soft">${[t,e.sample,...p(e.recipe)].join(` · `)}</p>
      <h2>Memory</h2>
      <div class="card">
        ${J(`Today`,N(e)?.peak_allocated_bytes??null,e,`#ff4444`,e.current_waste_percent,`wasted`)}
        ${J(`Maximum`,u?.peak_allocated_bytes??null,e,`#00ff88`,m(e),`used`)}
      </div>
      <h2>Answer</h2>
      <div class="card facts">
        ${f.map(([e,t])=>W`<div><span class="soft">${e}</span><b>${t}</b></div>`)}
      </div>
      <p class="soft">
        Savings: ${r(e)??`no price is known`}, ${s(h.hours_per_run)} h a run,
        ${s(h.runs_per_year)} runs a year, ${w(h.people)}
        ${h.people===1?`person`:`people`}.
      </p>
      <h2>Memory by batch size</h2>
      <div class="card">${ee(D(e),_(e))}</div>
      <h2>Throughput by batch size</h2>
      <div class="card">${te(e)}</div>
      <h2>Trials</h2>
      <div class="card">${ne(e)}</div>
      <h2>How this was found</h2>
      <p class="soft">
        ${n} ${l?.intervals?`Predicted numbers come with intervals; see the trials.`:``} GiB means
        2^30 bytes.
        ${Object.entries(e.versions).map(([e,t])=>`${e} ${t}`).join(`, `)}.
      </p>`)}function B(e,t,r){let i=e.gpus.map(e=>W`<tr>
        <td>${e.gpu_name}</td>
        <td>${e.fits?w(e.max_batch_size??0):`does not fit`}</td>
        <td>${e.recommended_batch_size===null?``:w(e.recommended_batch_size)}</td>
        <td>${e.samples_per_second===null?``:f(e.samples_per_second)}</td>
        <td>${e.usd_per_million_samples===null?``:l(e.usd_per_million_samples)}</td>
        <td>${e.price?`$${e.price.usd_per_hour}/h`:``}</td>
      </tr>`);return K(`${t} on every GPU`,W`<p class="soft">MemoryMark, all GPUs, ${r}</p>
      <h1>${S(e).sentence}</h1>
      <p class="soft">${[t,...p(e.recipe),`predicted`].join(` · `)}</p>
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
            ${i}
          </tbody>
        </table>
      </div>
      <p class="soft">${n}</p>`)}function V(e,t,r){let i=e.lengths.map(e=>W`<tr>
        <td>${e.seq_len}</td>
        <td>${e.fits?w(e.max_batch_size??0):`does not fit`}</td>
        <td>${e.recommended_batch_size===null?``:w(e.recommended_batch_size)}</td>
        <td>${e.samples_per_second===null?``:f(e.samples_per_second)}</td>
        <td>${e.lost===null?``:a(100*e.lost,0)}</td>
      </tr>`);return K(`${t} at several lengths`,W`<p class="soft">MemoryMark, several lengths, ${r}</p>
      <h1>${x(e).sentence}</h1>
      <p class="soft">${[t,e.gpu_name,...p(e.recipe),e.source].join(` · `)}</p>
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
            ${i}
          </tbody>
        </table>
      </div>
      ${e.advice.map(e=>W`<p>${e}</p>`)}
      <p class="soft">${n}</p>`)}function H(t,r,i){let a=P(t),o=t.worth_changing?t.options[0]:void 0,s=(e,t)=>W`<td>${e==null?``:t(e)}</td>`,c=t.options.map(t=>{let n=v(t),r=t.source+(n===null?``:` (${u(n)} predicted)`);return W`<tr>
      <td>${F(t)}</td>
      ${s(t.gain,u)}
      <td>${r}</td>
      <td>${M(t.batch_size,t)}</td>
      ${s(t.samples_per_second,f)} ${s(t.memory_gb*T,e)}
      ${s(t.usd_per_million_samples,l)} ${s(t.cost_savings_annual,l)}
    </tr>`}),d=W`<tr>
    <td>today: ${p(t.recipe).join(`, `)}</td>
    ${s(a?1:null,u)}
    <td>${a?a.source:`does not fit`}</td>
    <td>${M(t.current_batch_size,t.recipe)}</td>
    ${s(a?.samples_per_second,f)} ${s(a?.peak_allocated_bytes,e)}
    ${s(t.today.usd_per_million_samples,l)}
    <td></td>
  </tr>`,m=e=>W`<dl class="card">${e.map(([e,t])=>W`<dt>${e}</dt><dd>${t}</dd>`)}</dl>`;return K(`What to change: ${r} on ${t.gpu_name}`,W`<p class="soft">MemoryMark, what to change, ${i}</p>
      <h1>${b(t).sentence}</h1>
      <p>${y(t)}</p>
      <p class="soft">${[r,t.sample,...p(t.recipe)].join(` · `)}</p>
      <h2>${t.fits_today?`Ways to train, the best first`:`Ways to make it fit, the least change first`}</h2>
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
            ${c}${d}
          </tbody>
        </table>
      </div>
      ${o?W`<h2>What the first one costs</h2>
              ${m(o.costs.map(({change:e,cost:t})=>[e,t]))}
              ${g(t,o).map(e=>W`<p>${e}</p>`)}
              <h2>Its code for PyTorch</h2>
              <div class="card"><pre>${o.code.pytorch}</pre></div>`:``}
      ${t.refused.length>0?W`<h2>Looked at and left</h2>
              ${m(t.refused.map(({title:e,why:t})=>[e,I(t)]))}`:``}
      <p class="soft">${n}</p>`)}var U=class{text;constructor(e){this.text=e}};function W(e,...t){let n=e=>e instanceof U?e.text:G(String(e)),r=t.map(e=>Array.isArray(e)?e.map(n).join(``):n(e));return new U(String.raw({raw:e},...r))}function G(e){let t={"&":`&amp;`,"<":`&lt;`,">":`&gt;`,'"':`&quot;`,"'":`&#39;`};return e.replace(/[&<>"']/g,e=>t[e])}function K(e,t){return W`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${e} · MemoryMark</title>
        ${new U(`<style>${L}</style>`)}
      </head>
      <body>
        ${t}
      </body>
    </html> `.text}function q(e){return e===null?`not known`:l(e)}function J(t,n,r,i,o,s){if(n===null||o===null)return W`<div>${t}: does not fit or was not tried</div>`;let c=s===`wasted`?100-o:o,l=e(r.gpu_total_gb*T),u=new U(`width:${c.toFixed(1)}%;background:${i}`);return W`<div>${t}: ${e(n)} of ${l}, ${a(o)} ${s}</div>
    <div class="bar"><i style="${u}"></i></div>`}var Y=720,X=280,Z={left:56,right:12,top:12,bottom:40},Q={width:Y-Z.left-Z.right,height:X-Z.top-Z.bottom};function $(e,t){return W`<svg viewBox="0 0 ${Y} ${X}" role="img" aria-label="${e}">${t}</svg>`}function ee(e,t){let n=O(e),r=Math.max(t,...e.map(e=>e.total))*1.05,i=e=>Z.top+Q.height*(1-e/r),a=Q.width/Math.max(e.length,1),o=e.flatMap((e,t)=>{let r=Z.left+a*(t+.15),o=(e,t,n)=>W`<rect
        x="${r}"
        y="${i(t)}"
        width="${a*.7}"
        height="${Math.max(i(e)-i(t),0)}"
        fill="${n}"
      />`,s=W`<text x="${r+a*.35}" y="${258}" text-anchor="middle">${e.batch}</text>`;if(e.failed!==void 0)return[o(0,e.failed,`#ff444466`),s];let c=0;return[...n.map(t=>{let n=c+(e[t.name]??0),r=o(c,n,t.color);return c=n,r}),s]}),s=W`<line
      x1="${Z.left}"
      x2="${Y-Z.right}"
      y1="${i(t)}"
      y2="${i(t)}"
      stroke="#ededed"
      stroke-dasharray="5 4"
    />
    <text x="${Z.left-6}" y="${i(t)+4}" text-anchor="end">${t.toFixed(1)}</text>
    <text x="${Z.left-6}" y="${i(0)}" text-anchor="end">0 GiB</text>
    <text x="${Y/2}" y="${276}" text-anchor="middle">batch size; the dashed line is all there is</text>`,c=n.map(e=>W`<li><i style="${new U(`background:${e.color}`)}"></i>${e.label}</li>`);return W`${$(`Memory by batch size, stacked by part; the numbers are in the table of trials.`,[...o,s])}
    <ul class="legend">
      ${c}
    </ul>`}function te(e){let t=j(e.trials),n=C(t,e.thrashing_batch_sizes);if(!n)return W`<p>No batch size was timed.</p>`;let r=n[1]*1.08,i=t.map(e=>Math.log2(e.batch)),[a,o]=[Math.min(...i),Math.max(...i)],s=e=>Z.left+Q.width*(o>a?(Math.log2(e)-a)/(o-a):.5),c=e=>Z.top+Q.height*(1-e/r),l=t.map(e=>`${s(e.batch).toFixed(1)},${c(e.speed).toFixed(1)}`).join(` `),u=t.map(t=>{let n=t.batch===e.recommended_batch_size;return W`<circle
        cx="${s(t.batch)}"
        cy="${c(t.speed)}"
        r="${n?6:3}"
        fill="${n?`#00ff88`:`#5b93ff`}"
      />
      <text x="${s(t.batch)}" y="${258}" text-anchor="middle">${t.batch}</text>`});return $(`Samples per second by batch size; the numbers are in the table of trials.`,[W`<rect
      x="${Z.left}"
      y="${c(n[1])}"
      width="${Q.width}"
      height="${c(n[0])-c(n[1])}"
      fill="#00ff8822"
    />`,W`<polyline points="${l}" fill="none" stroke="#5b93ff" stroke-width="2" />`,...u,W`<text x="${Z.left-6}" y="${c(n[1])+4}" text-anchor="end">${f(n[1])}</text>
      <text x="${Z.left-6}" y="${c(0)}" text-anchor="end">0</text>
      <text x="${Y/2}" y="${276}" text-anchor="middle"
        >batch size; samples per second; green: within 5 % of the best</text
      >`])}function ne(t){let n=t.trials.map(t=>{let n=t.intervals?.samples_per_second,r=t.samples_per_second===null?``:f(t.samples_per_second),i=A.map(n=>W`<td>${t.breakdown?e(t.breakdown[n.name]):``}</td>`);return W`<tr>
      <td>${t.batch_size}</td>
      <td>${t.fits?`fits`:`fails`}</td>
      <td>${e(t.peak_allocated_bytes)}</td>
      <td>${r}</td>
      <td>${n?`${f(n[0])} to ${f(n[1])}`:``}</td>
      ${i}
    </tr>`});return W`<table>
    <thead>
      <tr>
        <th>Batch</th>
        <th></th>
        <th>Peak allocated</th>
        <th>Samples/s</th>
        <th>between</th>
        ${A.map(e=>W`<th>${e.label}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${n}
    </tbody>
  </table>`}export{H as adviceReport,z as analysisReport,B as comparisonReport,G as escaped,R as reportOf,V as sweepReport};