"""transformers' Trainer."""

from common import Samples, StepClock, arguments, build
from transformers import Trainer, TrainerCallback, TrainingArguments


class Clock(TrainerCallback):
    def __init__(self, clock: StepClock) -> None:
        self.clock = clock

    def on_step_end(self, *_args: object, **_kwargs: object) -> None:
        self.clock.step()


def main() -> None:
    given = arguments()
    clock = StepClock(given)
    how = TrainingArguments(
        given.folder,
        per_device_train_batch_size=given.batch_size,
        gradient_accumulation_steps=given.accumulate,
        max_steps=given.steps,
        dataloader_num_workers=given.workers,
        bf16=given.bf16,
        optim="adamw_torch_fused" if given.fused else "adamw_torch",
        use_cpu=given.device == "cpu",
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    Trainer(build(given), how, train_dataset=Samples(given), callbacks=[Clock(clock)]).train()
    clock.finish()


if __name__ == "__main__":
    main()
