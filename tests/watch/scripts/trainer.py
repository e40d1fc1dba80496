"""transformers' Trainer with our callback in it, on the CPU."""

import json
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from memorymark.integrations.transformers import MemoryMarkCallback

SMALL = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=50)
rows = [{"input_ids": torch.randint(0, 49, (8,)), "labels": index % 2} for index in range(96)]
arguments = TrainingArguments(
    sys.argv[1],
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    max_steps=10,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
)
callback = MemoryMarkCallback(show=False)
Trainer(BertForSequenceClassification(SMALL), arguments, train_dataset=rows, callbacks=[callback]).train()
print(json.dumps(callback.report.to_dict()))
