from importlib.util import find_spec

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import memorymark as mm
from memorymark.errors import UsageError
from memorymark.training.attention import choose_attention
from memorymark.training.step import TrainingStep
from support.decoders import llama

FLASH = mm.Recipe(attention="flash", precision="bf16")


def test_flash_attention_runs_on_no_cpu():
    with pytest.raises(UsageError, match="flash attention runs only on NVIDIA GPUs"):
        TrainingStep(llama(), FLASH, torch.device("cpu"))


@pytest.mark.skipif(find_spec("flash_attn") is not None, reason="flash-attn is installed")
def test_without_the_package_one_sentence_names_it():
    model = llama().build()
    on_gpu = FakeTensor(FakeTensorMode(), torch.empty(1, device="meta"), torch.device("cuda:0"))
    model.model.embed_tokens.weight = torch.nn.Parameter(on_gpu)

    with pytest.raises(UsageError, match="pip install flash-attn") as raised:
        choose_attention(model, "flash", to_trace=False)
    assert raised.value.code == "not_installed"
    assert raised.value.suggestions[0].change == {"attention": "auto"}
