"""Trainers as they are, on models of a few kilobytes."""

import lightning
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import memorymark as mm

WHERE = {"gpu": "l4", "memory_gib": 0.1}
CONFIG = BertConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=50)
ROWS = [{"input_ids": torch.zeros(length, dtype=torch.long), "labels": 0} for length in (16, 16, 16)]


def by_hand(**options):
    model = BertForSequenceClassification(CONFIG)

    def batch(size):
        return {"input_ids": torch.zeros(size, 16, dtype=torch.long), "labels": torch.zeros(size, dtype=torch.long)}

    return mm.max_batch_size(model, batch, **WHERE, **options)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [({}, {}), ({"bf16": True, "gradient_accumulation_steps": 2}, {"precision": "bf16", "accumulate": 2})],
)
def test_a_trainer_of_transformers_says_all_by_itself(tmp_path, arguments, options):
    usual = {"report_to": [], "use_cpu": True, "optim": "adamw_torch"}
    trainer = Trainer(
        BertForSequenceClassification(CONFIG), TrainingArguments(tmp_path, **usual, **arguments), train_dataset=ROWS
    )

    found = mm.max_batch_size(trainer, **WHERE)

    assert found == pytest.approx(by_hand(**options), rel=0.02)
    assert trainer.optimizer is None


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(64, 10)

    def training_step(self, batch, index):
        return {"loss": nn.functional.cross_entropy(self.net(batch[0]), batch[1])}

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


def test_a_module_of_lightning_brings_its_step_and_its_optimizer():
    loader = DataLoader(TensorDataset(torch.rand(10, 64), torch.zeros(10, dtype=torch.long)), batch_size=2)

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    plain = mm.max_batch_size(nn.Linear(64, 10), loader, loss, lambda m: torch.optim.SGD(m.parameters()), **WHERE)

    assert mm.max_batch_size(Classifier(), loader, **WHERE) == plain


def test_a_trainer_of_lightning_that_has_nothing_yet_is_refused():
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    with pytest.raises(mm.UsageError, match="pass the LightningModule and the loader"):
        mm.max_batch_size(lightning.Trainer(accelerator="cpu", **quiet), **WHERE)
