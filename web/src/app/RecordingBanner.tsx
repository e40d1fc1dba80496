import { useHealth, useModels } from "../api/queries";
import { useSubmit } from "../form/use-submit";
import { recordedWords } from "../result/recorded";
import { modelName } from "../result/summary";
import { askProblem } from "../shared/problems";
import { Badge } from "../ui/Badge";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";

/** Says on every page that nothing here is live, what was recorded, where and when; plays it. */
export function RecordingBanner() {
  const { data: health } = useHealth();
  const { data: models = [] } = useModels();
  const submit = useSubmit();
  const recording = health?.recording;
  if (!recording) return null;
  return (
    <aside aria-label="Recording" className="border-b border-warn/40 bg-[#1d1808]">
      <div className="mx-auto flex w-full max-w-[82rem] flex-wrap items-center gap-x-4 gap-y-2 px-4 py-3 text-sm sm:px-6">
        <div className="min-w-0 grow basis-64">
          <p className="text-[#f3e3bf]">
            <Badge tone="warn">recorded</Badge> {recordedWords(recording, modelName(recording.model_name, models))}
          </p>
          {recording.note && <p className="mt-1 text-xs text-soft">{recording.note}</p>}
        </div>
        <Button onClick={() => submit.mutate(recording.options)} disabled={submit.isPending}>
          Play the recording
        </Button>
        {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
      </div>
    </aside>
  );
}
