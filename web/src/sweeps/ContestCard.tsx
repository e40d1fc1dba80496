import { useMemo, useState } from "react";
import type { SweepCase, SweepGroup } from "../api/types";
import { ContestChart } from "../charts/lazy";
import { rateUnit } from "../shared/rate";
import { Card } from "../ui/Card";
import { SelectField } from "../ui/fields";
import { contestPoints, groupName } from "./contest";

interface ContestCardProps {
  groups: readonly SweepGroup[];
  cases: readonly SweepCase[];
}

/** Speed against money for one model at a time. */
export function ContestCard({ groups, cases }: ContestCardProps) {
  const [chosen, setChosen] = useState("");
  const charts = useMemo(
    () =>
      groups
        .map((group) => ({ name: groupName(group), points: contestPoints(group, cases) }))
        .filter(({ points }) => points.length > 0),
    [groups, cases],
  );
  const chart = charts.find(({ name }) => name === chosen) ?? charts[0];
  if (!chart) return null;
  const numbers = new Set(chart.points.map(({ number }) => number));
  return (
    <Card
      title="Speed against money"
      note={`${chart.name}. A case is on the front if no other is both faster and cheaper.`}
      action={
        charts.length > 1 && (
          <div className="w-64 print:hidden">
            <SelectField
              label="Model"
              value={chart.name}
              choices={charts.map(({ name }) => ({ value: name, label: name }))}
              onChange={setChosen}
            />
          </div>
        )
      }
    >
      <ContestChart points={chart.points} unit={rateUnit(cases.filter((one) => numbers.has(one.number)))} />
    </Card>
  );
}
