import { memo, useState } from "react";
import type { SweepAxis, SweepCase } from "../api/types";
import { count, perSecond, shortGpuName } from "../shared/format";
import { rateOf, rateUnit } from "../shared/rate";
import { link } from "../shared/route";
import { capitalized } from "../shared/text";
import { Badge, type Tone } from "../ui/Badge";
import { BarCell } from "../ui/BarCell";
import { Button } from "../ui/Button";
import { ScrollTable } from "../ui/ScrollTable";
import { costWords, detailsOf, type Mark } from "./cases";

/** More rows would make the page slow; who looks for one of many narrows them. */
const MOST_ROWS = 200;
/** Where there is little room, numbers stand below the case. */
const WIDE = "hidden md:table-cell";
const NUMBERS = 4;

interface CaseTableProps {
  cases: readonly SweepCase[];
  axes: readonly SweepAxis[];
  marks: ReadonlyMap<number, readonly Mark[]>;
}

export function CaseTable({ cases, axes, marks }: CaseTableProps) {
  const [isWhole, setWhole] = useState(false);
  const rows = isWhole ? cases : cases.slice(0, MOST_ROWS);
  const timed = cases.filter((one) => rateOf(one) !== null);
  const isMixed = new Set(timed.map((one) => rateUnit([one]))).size > 1;
  const fastest = Math.max(0, ...timed.map((one) => rateOf(one) ?? 0));
  const hasRuns = cases.some((one) => one.whole_run);
  return (
    <>
      <ScrollTable label="Table of cases">
        <table className="w-full text-sm md:min-w-[44rem]">
          <caption className="sr-only">Cases of this sweep</caption>
          <thead>
            <tr className="text-left text-xs text-soft [&>th]:px-2 [&>th]:pb-2 [&>th]:font-medium">
              <th scope="col">Case</th>
              <th scope="col" className={`w-[24%] ${WIDE}`}>
                {isMixed ? "Tokens or samples" : capitalized(rateUnit(timed))} per second
              </th>
              <th scope="col" className={`text-right ${WIDE}`}>
                {hasRuns ? "Whole run" : "$ per million samples"}
              </th>
              <th scope="col" className={`text-right ${WIDE}`}>
                Use
              </th>
              <th scope="col" className={`text-right ${WIDE}`}>
                Maximum
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <CaseRow
                key={one.number}
                one={one}
                axes={axes}
                marks={marks.get(one.number) ?? NONE}
                fastest={fastest}
              />
            ))}
          </tbody>
        </table>
      </ScrollTable>
      {rows.length < cases.length && (
        <Button onClick={() => setWhole(true)} className="mt-3 w-full">
          Show all {count(cases.length)} cases
        </Button>
      )}
    </>
  );
}

const NONE: readonly Mark[] = [];
const TONES: Record<Mark, Tone> = {
  fastest: "good",
  cheapest: "good",
  "may be fastest": "plain",
  "may be cheapest": "plain",
  "on the front": "info",
};

interface CaseRowProps {
  one: SweepCase;
  axes: readonly SweepAxis[];
  marks: readonly Mark[];
  fastest: number;
}

const CaseRow = memo(function CaseRow({ one, axes, marks, fastest }: CaseRowProps) {
  return (
    <tr className="border-t border-line [&>td]:px-2 [&>td]:py-2">
      <th scope="row" className="min-w-48 px-2 py-2 text-left font-normal">
        <span className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <CaseName one={one} />
          {marks.map((mark) => (
            <Badge key={mark} tone={TONES[mark]}>
              {mark}
            </Badge>
          ))}
        </span>
        <span className="mt-0.5 block text-xs text-faint">{detailsOf(one, axes).join(" · ")}</span>
        <span className="mt-1 block md:hidden">{one.state === "done" ? <Numbers one={one} /> : <WhyNoNumbers one={one} />}</span>
      </th>
      {one.state === "done" ? (
        <>
          <td className={WIDE}>
            <BarCell value={rateOf(one)} most={fastest} words={perSecond} color="bg-sky" nothing="not timed" />
          </td>
          <td className={`text-right whitespace-nowrap ${WIDE}`}>{costWords(one) || <span className="text-faint">no price</span>}</td>
          <td className={`text-right font-semibold text-accent ${WIDE}`}>
            {batchWords(one)}
          </td>
          <td className={`text-right ${WIDE}`}>{count(one.max_batch_size ?? 0)}</td>
        </>
      ) : (
        <td colSpan={NUMBERS} className={WIDE}>
          <WhyNoNumbers one={one} />
        </td>
      )}
    </tr>
  );
});

function CaseName({ one }: { one: SweepCase }) {
  const name = `${one.model_name} on ${shortGpuName(one.gpu_name)}`;
  if (one.job === null) return <span className="font-medium">{name}</span>;
  return (
    <a href={link.job(one.job)} className="font-medium underline decoration-edge underline-offset-4 hover:decoration-accent">
      {name}
    </a>
  );
}

function batchWords(one: SweepCase): string {
  return one.keeps_margin ? count(one.batch_size ?? 0) : "none";
}

/** The numbers of a row in a line. */
function Numbers({ one }: { one: SweepCase }) {
  const rate = rateOf(one);
  const numbers = [...(rate ? [`${perSecond(rate)} ${rateUnit([one])}/s`] : []), costWords(one)].filter(Boolean);
  return (
    <span className="text-soft">
      {numbers.join(" · ")}
      <span className="block">
        use <strong className="font-semibold text-accent">{batchWords(one)}</strong>, maximum {count(one.max_batch_size ?? 0)}
      </span>
    </span>
  );
}

function WhyNoNumbers({ one }: { one: SweepCase }) {
  if (one.state === "waiting") return <span className="text-faint">Waiting</span>;
  const [title, color] = one.state === "failed" ? ["Failed.", "text-bad-ink"] : ["Does not fit.", "text-warn"];
  return (
    <span className={color}>
      <span className="font-semibold">{title}</span> {capitalized(one.error ?? "")}
    </span>
  );
}
