"""Show what LoRA saves: the memory of a full fine-tuning beside that of adapters, predicted for one GPU.

Run it with ``python lora.py``. It needs peft: ``pip install 'memorymark[lora]'``.
"""

import memorymark as mm

MODEL, BATCH_SIZE, TOKENS, GPU = "gpt2-lm", 4, 512, "rtx4090"


def gib(size_bytes):
    return f"{size_bytes / 2**30:10.2f}"


full = mm.predict(MODEL, BATCH_SIZE, gpu=GPU, precision="bf16", seq_len=TOKENS)
lora = mm.predict(MODEL, BATCH_SIZE, gpu=GPU, precision="bf16", seq_len=TOKENS, lora=16)

print(f"{MODEL}, batch {BATCH_SIZE} of {TOKENS} tokens, {GPU}, {full.source}")
print("GiB at the peak       full   LoRA 16")
for part in ("weights", "optimizer_state", "activations"):
    sizes = (getattr(trial.breakdown, f"{part}_bytes") for trial in (full, lora))
    print(f"{part.replace('_', ' '):<16}", *map(gib, sizes), sep="")
print("in all          ", gib(full.peak_allocated_bytes), gib(lora.peak_allocated_bytes), sep="")
