import{C as e,D as t,E as n,O as r,S as i,T as a,_ as o,a as s,b as c,c as l,f as u,g as d,h as f,i as p,l as m,m as h,n as g,r as _,s as v,t as y,v as b,w as x,x as S,y as C}from"./index-B_oHs3hi.js";var w=`
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
@media print{:root{color-scheme:light}body{background:#fff;color:#000}.card{background:#fff}}`;function T(e,a,c){let u=g(e),p=C(e),m=o(e),_=[[`Today's batch`,i(e.current_batch_size)],[`Maximum batch`,i(e.max_batch_size)],[`Recommended batch`,e.recommended_batch_size===null?`none`:i(e.recommended_batch_size)],[`Speedup`,e.speedup===null?`not known`:t(e.speedup)],[`Saved per run`,j(e.cost_savings_per_run)],[`Saved per year`,j(e.cost_savings_annual)]],v=e.usage;return A(`${a} on ${e.gpu_name}`,O`<p class="soft">MemoryMark, GPU memory waste report, ${c}</p>
      <h1>${u.sentence}</h1>
      <p>${y(e)}</p>
      <p class="soft">${[a,e.sample,...r(e.recipe)].join(` · `)}</p>
      <h2>Memory</h2>
      <div class="card">
        ${M(`Today`,f(e)?.peak_allocated_bytes??null,e,`#ff4444`,e.current_waste_percent,`wasted`)}
        ${M(`Maximum`,m?.peak_allocated_bytes??null,e,`#00ff88`,d(e),`used`)}
      </div>
      <h2>Answer</h2>
      <div class="card facts">
        ${_.map(([e,t])=>O`<div><span class="soft">${e}</span><b>${t}</b></div>`)}
      </div>
      <p class="soft">
        Savings: ${b(e)??`no price is known`}, ${n(v.hours_per_run)} h a run,
        ${n(v.runs_per_year)} runs a year, ${i(v.people)}
        ${v.people===1?`person`:`people`}.
      </p>
      <h2>Memory by batch size</h2>
      <div class="card">${R(s(e),l(e))}</div>
      <h2>Throughput by batch size</h2>
      <div class="card">${z(e)}</div>
      <h2>Trials</h2>
      <div class="card">${B(e)}</div>
      <h2>How this was found</h2>
      <p class="soft">
        ${h} ${p?.intervals?`Predicted numbers come with intervals; see the trials.`:``} GiB means
        2^30 bytes.
        ${Object.entries(e.versions).map(([e,t])=>`${e} ${t}`).join(`, `)}.
      </p>`)}function E(t,n,a){let o=t.gpus.map(t=>O`<tr>
        <td>${t.gpu_name}</td>
        <td>${t.fits?i(t.max_batch_size??0):`does not fit`}</td>
        <td>${t.recommended_batch_size===null?``:i(t.recommended_batch_size)}</td>
        <td>${t.samples_per_second===null?``:x(t.samples_per_second)}</td>
        <td>${t.usd_per_million_samples===null?``:e(t.usd_per_million_samples)}</td>
        <td>${t.price?`$${t.price.usd_per_hour}/h`:``}</td>
      </tr>`);return A(`${n} on every GPU`,O`<p class="soft">MemoryMark, all GPUs, ${a}</p>
      <h1>${_(t).sentence}</h1>
      <p class="soft">${[n,...r(t.recipe),`predicted`].join(` · `)}</p>
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
            ${o}
          </tbody>
        </table>
      </div>
      <p class="soft">${h}</p>`)}var D=class{text;constructor(e){this.text=e}};function O(e,...t){let n=e=>e instanceof D?e.text:k(String(e)),r=t.map(e=>Array.isArray(e)?e.map(n).join(``):n(e));return new D(String.raw({raw:e},...r))}function k(e){let t={"&":`&amp;`,"<":`&lt;`,">":`&gt;`,'"':`&quot;`,"'":`&#39;`};return e.replace(/[&<>"']/g,e=>t[e])}function A(e,t){return O`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${e} · MemoryMark</title>
        ${new D(`<style>${w}</style>`)}
      </head>
      <body>
        ${t}
      </body>
    </html> `.text}function j(t){return t===null?`not known`:e(t)}function M(e,t,n,r,i,o){if(t===null||i===null)return O`<div>${e}: does not fit or was not tried</div>`;let s=o===`wasted`?100-i:i,l=S(n.gpu_total_gb*c),u=new D(`width:${s.toFixed(1)}%;background:${r}`);return O`<div>${e}: ${S(t)} of ${l}, ${a(i)} ${o}</div>
    <div class="bar"><i style="${u}"></i></div>`}var N=720,P=280,F={left:56,right:12,top:12,bottom:40},I={width:N-F.left-F.right,height:P-F.top-F.bottom};function L(e,t){return O`<svg viewBox="0 0 ${N} ${P}" role="img" aria-label="${e}">${t}</svg>`}function R(e,t){let n=m(e),r=Math.max(t,...e.map(e=>e.total))*1.05,i=e=>F.top+I.height*(1-e/r),a=I.width/Math.max(e.length,1),o=e.flatMap((e,t)=>{let r=F.left+a*(t+.15),o=(e,t,n)=>O`<rect
        x="${r}"
        y="${i(t)}"
        width="${a*.7}"
        height="${Math.max(i(e)-i(t),0)}"
        fill="${n}"
      />`,s=O`<text x="${r+a*.35}" y="${258}" text-anchor="middle">${e.batch}</text>`;if(e.failed!==void 0)return[o(0,e.failed,`#ff444466`),s];let c=0;return[...n.map(t=>{let n=c+(e[t.name]??0),r=o(c,n,t.color);return c=n,r}),s]}),s=O`<line
      x1="${F.left}"
      x2="${N-F.right}"
      y1="${i(t)}"
      y2="${i(t)}"
      stroke="#ededed"
      stroke-dasharray="5 4"
    />
    <text x="${F.left-6}" y="${i(t)+4}" text-anchor="end">${t.toFixed(1)}</text>
    <text x="${F.left-6}" y="${i(0)}" text-anchor="end">0 GiB</text>
    <text x="${N/2}" y="${276}" text-anchor="middle">batch size; the dashed line is all there is</text>`,c=n.map(e=>O`<li><i style="${new D(`background:${e.color}`)}"></i>${e.label}</li>`);return O`${L(`Memory by batch size, stacked by part; the numbers are in the table of trials.`,[...o,s])}
    <ul class="legend">
      ${c}
    </ul>`}function z(e){let t=u(e.trials),n=v(t,e.thrashing_batch_sizes);if(!n)return O`<p>No batch size was timed.</p>`;let r=n[1]*1.08,i=t.map(e=>Math.log2(e.batch)),[a,o]=[Math.min(...i),Math.max(...i)],s=e=>F.left+I.width*(o>a?(Math.log2(e)-a)/(o-a):.5),c=e=>F.top+I.height*(1-e/r),l=t.map(e=>`${s(e.batch).toFixed(1)},${c(e.speed).toFixed(1)}`).join(` `),d=t.map(t=>{let n=t.batch===e.recommended_batch_size;return O`<circle
        cx="${s(t.batch)}"
        cy="${c(t.speed)}"
        r="${n?6:3}"
        fill="${n?`#00ff88`:`#5b93ff`}"
      />
      <text x="${s(t.batch)}" y="${258}" text-anchor="middle">${t.batch}</text>`});return L(`Samples per second by batch size; the numbers are in the table of trials.`,[O`<rect
      x="${F.left}"
      y="${c(n[1])}"
      width="${I.width}"
      height="${c(n[0])-c(n[1])}"
      fill="#00ff8822"
    />`,O`<polyline points="${l}" fill="none" stroke="#5b93ff" stroke-width="2" />`,...d,O`<text x="${F.left-6}" y="${c(n[1])+4}" text-anchor="end">${x(n[1])}</text>
      <text x="${F.left-6}" y="${c(0)}" text-anchor="end">0</text>
      <text x="${N/2}" y="${276}" text-anchor="middle"
        >batch size; samples per second; green: within 5 % of the best</text
      >`])}function B(e){let t=e.trials.map(e=>{let t=e.intervals?.samples_per_second,n=e.samples_per_second===null?``:x(e.samples_per_second),r=p.map(t=>O`<td>${e.breakdown?S(e.breakdown[t.name]):``}</td>`);return O`<tr>
      <td>${e.batch_size}</td>
      <td>${e.fits?`fits`:`fails`}</td>
      <td>${S(e.peak_allocated_bytes)}</td>
      <td>${n}</td>
      <td>${t?`${x(t[0])} to ${x(t[1])}`:``}</td>
      ${r}
    </tr>`});return O`<table>
    <thead>
      <tr>
        <th>Batch</th>
        <th></th>
        <th>Peak allocated</th>
        <th>Samples/s</th>
        <th>between</th>
        ${p.map(e=>O`<th>${e.label}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${t}
    </tbody>
  </table>`}export{T as analysisReport,E as comparisonReport,k as escaped};