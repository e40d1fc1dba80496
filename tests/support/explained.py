"""Ten small workloads whose memory is explained, each traced once for all tests."""

from functools import cache

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.models.workloads import workload_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.probe.predicted import PredictedProbe
from support.decoders import llama
from support.tiny import tiny

H200 = find_gpu("h200")
BATCH = 16
WORKLOADS = {
    "bert": ("bert", mm.Recipe()),
    "gpt2, eager attention": ("gpt2", mm.Recipe(attention="eager")),
    "resnet in bf16": ("resnet", mm.Recipe(precision="bf16", channels_last=True)),
    "vit with SGD": ("vit-base", mm.Recipe(optimizer="sgd")),
    "decoder": (llama, mm.Recipe()),
    "decoder, outputs kept": (llama, mm.Recipe(keep_outputs=True)),
    "decoder, recomputed": (llama, mm.Recipe(precision="bf16", gradient_checkpointing="full")),
    "decoder with adapters": (llama, mm.Recipe(precision="bf16", lora=4, weights="nf4")),
    "two layers": (tiny, mm.Recipe(optimizer="adamw", fused=True)),
    "two layers, accumulated": (tiny, mm.Recipe(accumulation_steps=2)),
}


@cache
def probe_of(name):
    model, recipe = WORKLOADS[name]
    workload = workload_of(mm.Request(model=model, small=True)) if isinstance(model, str) else model()
    return PredictedProbe(trace_training(workload, recipe, H200.capability), recipe, H200)


@cache
def anatomy(name, batch_size=BATCH):
    return probe_of(name).explain(batch_size)
