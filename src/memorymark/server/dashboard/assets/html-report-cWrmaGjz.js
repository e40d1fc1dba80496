import{A as e,C as t,D as n,E as r,O as i,S as a,T as o,_ as s,a as c,b as l,c as u,g as d,i as f,k as p,l as m,m as h,n as g,o as _,r as v,t as y,u as b,v as x,w as S,x as C,y as w}from"./index-e7sqngrC.js";var T=`
:root{color-scheme:dark}*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1rem 4rem;max-width:60rem;background:#0a0a0a;color:#ededed;font:16px/1.5 Inter,system-ui,sans-serif}
h1{font-size:1.9rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.1rem;margin:2rem 0 .75rem}
p{margin:.4rem 0}.soft{color:#a3a3a3}.good{color:#00ff88}.bad{color:#ff6b6b}
.card{background:#1a1a1a;border:1px solid #2a2a2a;border-radius:12px;padding:1.25rem;overflow-x:auto}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:1rem}
.facts b{display:block;font-size:1.5rem}.bar{height:1.25rem;border-radius:4px;background:#333;overflow:hidden;margin:.25rem 0 1rem}
.bar i{display:block;height:100%}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.35rem .6rem;border-bottom:1px solid #2a2a2a;white-space:nowrap}th:first-child,td:first-child{text-align:left}
th{color:#a3a3a3;font-weight:500}svg{display:block;width:100%;height:auto;min-width:30rem}svg text{fill:#a3a3a3;font-size:12px}
ul.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1rem;font-size:.85rem}
ul.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
@media print{:root{color-scheme:light}body{background:#fff;color:#000}.card{background:#fff}}`;function E(t,n,r){let a=g(t),o=C(t),c=w(t),u=[[`Today's batch`,S(t.current_batch_size)],[`Maximum batch`,S(t.max_batch_size)],[`Recommended batch`,t.recommended_batch_size===null?`none`:S(t.recommended_batch_size)],[`Speedup`,t.speedup===null?`not known`:p(t.speedup)],[`Saved per run`,N(t.cost_savings_per_run)],[`Saved per year`,N(t.cost_savings_annual)]],f=t.usage;return M(`${n} on ${t.gpu_name}`,A`<p class="soft">MemoryMark, GPU memory waste report, ${r}</p>
      <h1>${a.sentence}</h1>
      <p>${y(t)}</p>
      <p class="soft">${[n,t.sample,...e(t.recipe)].join(` · `)}</p>
      <h2>Memory</h2>
      <div class="card">
        ${P(`Today`,s(t)?.peak_allocated_bytes??null,t,`#ff4444`,t.current_waste_percent,`wasted`)}
        ${P(`Maximum`,c?.peak_allocated_bytes??null,t,`#00ff88`,x(t),`used`)}
      </div>
      <h2>Answer</h2>
      <div class="card facts">
        ${u.map(([e,t])=>A`<div><span class="soft">${e}</span><b>${t}</b></div>`)}
      </div>
      <p class="soft">
        Savings: ${l(t)??`no price is known`}, ${i(f.hours_per_run)} h a run,
        ${i(f.runs_per_year)} runs a year, ${S(f.people)}
        ${f.people===1?`person`:`people`}.
      </p>
      <h2>Memory by batch size</h2>
      <div class="card">${B(_(t),m(t))}</div>
      <h2>Throughput by batch size</h2>
      <div class="card">${V(t)}</div>
      <h2>Trials</h2>
      <div class="card">${H(t)}</div>
      <h2>How this was found</h2>
      <p class="soft">
        ${d} ${o?.intervals?`Predicted numbers come with intervals; see the trials.`:``} GiB means
        2^30 bytes.
        ${Object.entries(t.versions).map(([e,t])=>`${e} ${t}`).join(`, `)}.
      </p>`)}function D(t,n,i){let a=t.gpus.map(e=>A`<tr>
        <td>${e.gpu_name}</td>
        <td>${e.fits?S(e.max_batch_size??0):`does not fit`}</td>
        <td>${e.recommended_batch_size===null?``:S(e.recommended_batch_size)}</td>
        <td>${e.samples_per_second===null?``:r(e.samples_per_second)}</td>
        <td>${e.usd_per_million_samples===null?``:o(e.usd_per_million_samples)}</td>
        <td>${e.price?`$${e.price.usd_per_hour}/h`:``}</td>
      </tr>`);return M(`${n} on every GPU`,A`<p class="soft">MemoryMark, all GPUs, ${i}</p>
      <h1>${v(t).sentence}</h1>
      <p class="soft">${[n,...e(t.recipe),`predicted`].join(` · `)}</p>
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
            ${a}
          </tbody>
        </table>
      </div>
      <p class="soft">${d}</p>`)}function O(t,i,a){let o=t.lengths.map(e=>A`<tr>
        <td>${e.seq_len}</td>
        <td>${e.fits?S(e.max_batch_size??0):`does not fit`}</td>
        <td>${e.recommended_batch_size===null?``:S(e.recommended_batch_size)}</td>
        <td>${e.samples_per_second===null?``:r(e.samples_per_second)}</td>
        <td>${e.lost===null?``:n(100*e.lost,0)}</td>
      </tr>`);return M(`${i} at several lengths`,A`<p class="soft">MemoryMark, several lengths, ${a}</p>
      <h1>${f(t).sentence}</h1>
      <p class="soft">${[i,t.gpu_name,...e(t.recipe),t.source].join(` · `)}</p>
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
            ${o}
          </tbody>
        </table>
      </div>
      ${t.advice.map(e=>A`<p>${e}</p>`)}
      <p class="soft">${d}</p>`)}var k=class{text;constructor(e){this.text=e}};function A(e,...t){let n=e=>e instanceof k?e.text:j(String(e)),r=t.map(e=>Array.isArray(e)?e.map(n).join(``):n(e));return new k(String.raw({raw:e},...r))}function j(e){let t={"&":`&amp;`,"<":`&lt;`,">":`&gt;`,'"':`&quot;`,"'":`&#39;`};return e.replace(/[&<>"']/g,e=>t[e])}function M(e,t){return A`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${e} · MemoryMark</title>
        ${new k(`<style>${T}</style>`)}
      </head>
      <body>
        ${t}
      </body>
    </html> `.text}function N(e){return e===null?`not known`:o(e)}function P(e,r,i,o,s,c){if(r===null||s===null)return A`<div>${e}: does not fit or was not tried</div>`;let l=c===`wasted`?100-s:s,u=t(i.gpu_total_gb*a),d=new k(`width:${l.toFixed(1)}%;background:${o}`);return A`<div>${e}: ${t(r)} of ${u}, ${n(s)} ${c}</div>
    <div class="bar"><i style="${d}"></i></div>`}var F=720,I=280,L={left:56,right:12,top:12,bottom:40},R={width:F-L.left-L.right,height:I-L.top-L.bottom};function z(e,t){return A`<svg viewBox="0 0 ${F} ${I}" role="img" aria-label="${e}">${t}</svg>`}function B(e,t){let n=b(e),r=Math.max(t,...e.map(e=>e.total))*1.05,i=e=>L.top+R.height*(1-e/r),a=R.width/Math.max(e.length,1),o=e.flatMap((e,t)=>{let r=L.left+a*(t+.15),o=(e,t,n)=>A`<rect
        x="${r}"
        y="${i(t)}"
        width="${a*.7}"
        height="${Math.max(i(e)-i(t),0)}"
        fill="${n}"
      />`,s=A`<text x="${r+a*.35}" y="${258}" text-anchor="middle">${e.batch}</text>`;if(e.failed!==void 0)return[o(0,e.failed,`#ff444466`),s];let c=0;return[...n.map(t=>{let n=c+(e[t.name]??0),r=o(c,n,t.color);return c=n,r}),s]}),s=A`<line
      x1="${L.left}"
      x2="${F-L.right}"
      y1="${i(t)}"
      y2="${i(t)}"
      stroke="#ededed"
      stroke-dasharray="5 4"
    />
    <text x="${L.left-6}" y="${i(t)+4}" text-anchor="end">${t.toFixed(1)}</text>
    <text x="${L.left-6}" y="${i(0)}" text-anchor="end">0 GiB</text>
    <text x="${F/2}" y="${276}" text-anchor="middle">batch size; the dashed line is all there is</text>`,c=n.map(e=>A`<li><i style="${new k(`background:${e.color}`)}"></i>${e.label}</li>`);return A`${z(`Memory by batch size, stacked by part; the numbers are in the table of trials.`,[...o,s])}
    <ul class="legend">
      ${c}
    </ul>`}function V(e){let t=h(e.trials),n=u(t,e.thrashing_batch_sizes);if(!n)return A`<p>No batch size was timed.</p>`;let i=n[1]*1.08,a=t.map(e=>Math.log2(e.batch)),[o,s]=[Math.min(...a),Math.max(...a)],c=e=>L.left+R.width*(s>o?(Math.log2(e)-o)/(s-o):.5),l=e=>L.top+R.height*(1-e/i),d=t.map(e=>`${c(e.batch).toFixed(1)},${l(e.speed).toFixed(1)}`).join(` `),f=t.map(t=>{let n=t.batch===e.recommended_batch_size;return A`<circle
        cx="${c(t.batch)}"
        cy="${l(t.speed)}"
        r="${n?6:3}"
        fill="${n?`#00ff88`:`#5b93ff`}"
      />
      <text x="${c(t.batch)}" y="${258}" text-anchor="middle">${t.batch}</text>`});return z(`Samples per second by batch size; the numbers are in the table of trials.`,[A`<rect
      x="${L.left}"
      y="${l(n[1])}"
      width="${R.width}"
      height="${l(n[0])-l(n[1])}"
      fill="#00ff8822"
    />`,A`<polyline points="${d}" fill="none" stroke="#5b93ff" stroke-width="2" />`,...f,A`<text x="${L.left-6}" y="${l(n[1])+4}" text-anchor="end">${r(n[1])}</text>
      <text x="${L.left-6}" y="${l(0)}" text-anchor="end">0</text>
      <text x="${F/2}" y="${276}" text-anchor="middle"
        >batch size; samples per second; green: within 5 % of the best</text
      >`])}function H(e){let n=e.trials.map(e=>{let n=e.intervals?.samples_per_second,i=e.samples_per_second===null?``:r(e.samples_per_second),a=c.map(n=>A`<td>${e.breakdown?t(e.breakdown[n.name]):``}</td>`);return A`<tr>
      <td>${e.batch_size}</td>
      <td>${e.fits?`fits`:`fails`}</td>
      <td>${t(e.peak_allocated_bytes)}</td>
      <td>${i}</td>
      <td>${n?`${r(n[0])} to ${r(n[1])}`:``}</td>
      ${a}
    </tr>`});return A`<table>
    <thead>
      <tr>
        <th>Batch</th>
        <th></th>
        <th>Peak allocated</th>
        <th>Samples/s</th>
        <th>between</th>
        ${c.map(e=>A`<th>${e.label}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${n}
    </tbody>
  </table>`}export{E as analysisReport,D as comparisonReport,j as escaped,O as sweepReport};