import { useDraft } from "../hooks/use-draft";
import { otherDevice, wrongGpu } from "../logic/asked-names";
import { isMeasured } from "../logic/draft";
import { exactly, type Option } from "../logic/options";
import { Combobox } from "../ui/Combobox";
import { DidYouMean } from "./DidYouMean";

/** Where it trains. */
export function GpuField({ options }: { options: readonly Option[] }) {
  const { draft, change } = useDraft();
  const chosen = exactly(options, draft.gpu)?.value ?? draft.gpu;
  const wrong = wrongGpu(options, draft.gpu);
  const choose = (gpu: string) => change({ gpu });
  return (
    <Combobox
      label="GPU"
      options={options}
      value={draft.gpu}
      onChange={choose}
      keepsText
      custom={otherDevice}
      error={wrong && <DidYouMean wrong={wrong} onChoose={choose} />}
      hint={
        !chosen
          ? "\u00a0"
          : isMeasured(chosen)
            ? "Measured: real training steps on the server's GPU."
            : "Predicted: the server has no such GPU, so nothing runs on one."
      }
      nothing={(typed) => `No GPU matches “${typed}”.`}
    />
  );
}
