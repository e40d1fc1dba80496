"""Find a batch size for transformers' Trainer, train with it, and report what the training wastes.

Run it with ``python trainer.py``. It needs Accelerate: ``pip install accelerate``.
"""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, default_data_collator

import memorymark as mm
from memorymark.integrations.transformers import MemoryMarkCallback

config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=1000)
model = BertForSequenceClassification(config)
rows = [{"input_ids": torch.randint(1000, (32,)), "labels": index % 2} for index in range(512)]

# A batch of the longest row, as often as asked for: if that fits, every batch does.
found = mm.max_batch_size(model, lambda size: default_data_collator([rows[0]] * size), max_batch=32)
print(f"batch {found.safe} trains on this machine")

arguments = TrainingArguments(
    "output",
    per_device_train_batch_size=found.safe,
    num_train_epochs=1,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
)
callback = MemoryMarkCallback()  # prints its report when the training ends
Trainer(model, arguments, train_dataset=rows, callbacks=[callback]).train()

print(f"{callback.report.observation.steps} steps of {callback.report.observation.batch_size} samples")
print(callback.report.verdict.headline)
