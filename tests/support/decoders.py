"""A decoder of two small blocks, for tests of adapters and of weights in other types."""

import torch

import memorymark as mm


def llama(seq_len=16, **facts):
    """A decoder that is built from the facts of its config."""
    facts = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 200, **facts}  # fmt: skip

    def build():
        from transformers import LlamaConfig, LlamaForCausalLM

        return LlamaForCausalLM(LlamaConfig(**facts))

    def batch(size, device):
        ids = torch.randint(0, facts["vocab_size"], (size, seq_len), device=device)
        return {"input_ids": ids, "attention_mask": torch.ones(ids.shape, dtype=torch.long, device=device),
                "labels": ids}  # fmt: skip

    return mm.Workload(build, batch, name="Llama")
