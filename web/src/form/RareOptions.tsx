import { useDraft } from "../hooks/use-draft";
import { isMeasured, type DraftErrors } from "../logic/draft";
import { NumberField, SelectField, SwitchField } from "../ui/fields";

const ATTENTIONS = [
  { value: "auto", label: "The usual one" },
  { value: "sdpa", label: "SDPA" },
  { value: "eager", label: "Eager" },
] as const;
const LOSSES = [
  { value: "model", label: "Its own" },
  { value: "mean", label: "Mean of logits" },
] as const;
// A choice must have a value, and the draft's is empty.
const USUAL = "usual";
const SIZES = [
  { value: USUAL, label: "The usual" },
  { value: "no", label: "The whole model" },
  { value: "yes", label: "A small stand-in" },
] as const;

/** What very few people set. */
export function RareOptions({ errors, isForAllGpus }: { errors: DraftErrors; isForAllGpus: boolean }) {
  const { draft, change } = useDraft();
  return (
    <>
      <div className="grid grid-cols-2 gap-4">
        <SelectField
          label="Attention"
          value={draft.attention}
          choices={ATTENTIONS}
          onChange={(attention) => change({ attention })}
        />
        <SelectField label="Loss" value={draft.loss} choices={LOSSES} onChange={(loss) => change({ loss })} />
        <SelectField
          label="Layers"
          value={draft.small || USUAL}
          choices={SIZES}
          onChange={(small) => change({ small: small === USUAL ? "" : small })}
        />
        <NumberField
          label="Largest batch"
          unit="samples"
          placeholder="none"
          hint="Look no further."
          value={draft.maxBatch}
          error={errors.maxBatch}
          onChange={(maxBatch) => change({ maxBatch })}
        />
      </div>
      <SwitchField
        label="Evaluation mode"
        hint="Trains as after model.eval(): no dropout."
        checked={draft.evalMode}
        onChange={(evalMode) => change({ evalMode })}
      />
      {!isForAllGpus && isMeasured(draft.gpu) && (
        <SwitchField
          label="Advice may compile"
          hint="“What should I change?” also runs torch.compile: a minute or more."
          checked={draft.tryCompile}
          onChange={(tryCompile) => change({ tryCompile })}
        />
      )}
      {draft.trustRemoteCode && (
        <SwitchField
          label="Code of the model"
          hint="Runs code that a Hugging Face model brings, where the server allows it."
          checked
          onChange={(trustRemoteCode) => change({ trustRemoteCode })}
        />
      )}
    </>
  );
}
