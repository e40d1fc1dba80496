"""Changes as code to paste, in the words of the loop that runs: torch's own, transformers' or Lightning's."""

from __future__ import annotations

from memorymark.integrations.observation import Observation

EXPANDABLE = "export PYTORCH_ALLOC_CONF=expandable_segments:True   # before the script starts"


def loader(seen: Observation, workers: int) -> str:
    """More workers."""
    if seen.framework == "transformers":
        return (
            f"TrainingArguments(..., dataloader_num_workers={workers}, dataloader_pin_memory=True,\n"
            "                  dataloader_persistent_workers=True)"
        )
    pinned = "pin_memory=True, " if seen.device is not None and seen.device.kind == "cuda" else ""
    return f"DataLoader(..., num_workers={workers}, {pinned}persistent_workers=True)"


def precision(seen: Observation, name: str) -> str:
    """Lower precision."""
    if seen.framework == "transformers":
        return f"TrainingArguments(..., {name}=True)"
    if seen.framework == "lightning":
        return f'Trainer(..., precision="{"bf16" if name == "bf16" else "16"}-mixed")'
    if name == "bf16":
        return 'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = ...   # the forward pass and the loss'
    return (
        'scaler = torch.amp.GradScaler("cuda")\nwith torch.autocast("cuda", dtype=torch.float16):\n    loss = ...\n'
        "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"
    )


def batch(seen: Observation, size: int, *, accumulate: int) -> str:
    """Another batch size; the accumulation where there is or should be one."""
    if seen.framework == "transformers":
        steps = f", gradient_accumulation_steps={accumulate}" if max(accumulate, seen.micro_batches) > 1 else ""
        return f"TrainingArguments(..., per_device_train_batch_size={size}{steps})"
    code = f"DataLoader(..., batch_size={size})"
    if max(accumulate, seen.micro_batches) > 1:
        if seen.framework == "lightning":
            return f"{code}\nTrainer(..., accumulate_grad_batches={accumulate})"
        return f"{code}   # and step the optimizer every {accumulate} batches"
    return code


def fused(seen: Observation, name: str) -> str:
    """The fused version of an optimizer."""
    if seen.framework == "transformers" and name == "AdamW":
        return 'TrainingArguments(..., optim="adamw_torch_fused")'
    code = f"torch.optim.{name}(..., fused=True)"
    return f"Trainer(..., optimizers=({code}, None))" if seen.framework == "transformers" else code


def compiled(seen: Observation) -> str:
    """torch.compile."""
    return "TrainingArguments(..., torch_compile=True)" if seen.framework == "transformers" else "model.compile()"
