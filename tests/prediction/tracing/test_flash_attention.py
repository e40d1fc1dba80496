import pytest
import torch

import memorymark as mm
from memorymark.catalog import find_gpu
from memorymark.errors import UsageError
from memorymark.prediction.memory.scratch import scratch_of
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.flash_attention import flash_attention
from memorymark.training.attention import choose_attention
from memorymark.training.step import prepare_model
from support.decoders import llama
from support.flash_kernels import flash_kernels_on_the_cpu

H100 = (9, 0)
HEADS, TOKENS = 4, 200
FLASH = mm.Recipe(attention="flash", precision="bf16")


def losses_and_gradients(attention, *batches):
    """The model's mean loss over some batches and its gradients, with an attention."""
    torch.manual_seed(0)
    model = llama(hidden_size=80).build()  # heads of 20, which flash-attn pads to 24
    choose_attention(model, attention, to_trace=True)
    with flash_attention(H100), flash_kernels_on_the_cpu():
        loss = sum(model(**batch).loss for batch in batches) / len(batches)
        loss.backward()
    return loss.detach(), [parameter.grad for parameter in model.parameters()]


def texts(*lengths):
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, 200, (length,), generator=generator) for length in lengths]


def test_padded_texts_train_as_with_eager_attention():
    ids = torch.stack([torch.nn.functional.pad(one, (0, 12 - len(one))) for one in texts(12, 7, 9)])
    mask = (torch.arange(12) < torch.tensor([[12], [7], [9]])).long()
    batch = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}

    torch.testing.assert_close(losses_and_gradients("flash", batch), losses_and_gradients("eager", batch))


def test_texts_of_full_length_train_as_with_eager_attention():
    ids = torch.stack(texts(12, 12))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}

    torch.testing.assert_close(losses_and_gradients("flash", batch), losses_and_gradients("eager", batch))


def test_texts_in_one_row_do_not_see_each_other():
    several = texts(9, 9, 9)
    row, labels = torch.cat(several)[None], torch.cat(several)[None].clone()
    labels[:, ::9] = -100  # no text predicts the first word of the next
    packed = {"input_ids": row, "position_ids": torch.arange(9).repeat(3)[None], "labels": labels}
    alone = [{"input_ids": one[None], "labels": one[None]} for one in several]

    torch.testing.assert_close(losses_and_gradients("flash", packed), losses_and_gradients("eager", *alone))


def operations(recipe):
    step = trace_training(llama(seq_len=TOKENS, vocab_size=500), recipe, H100)
    return [growth.at(3) for growth in step.later.operations]


def test_no_tensor_grows_with_the_square_of_the_length():
    squares = [
        tensor for op in operations(FLASH) for tensor in op.outputs if sum(size == TOKENS for size in tensor.shape) > 1
    ]

    assert not squares


def test_a_sum_for_each_query_is_kept_until_the_backward_pass():
    ops = operations(FLASH)
    forward = next(op for op in ops if op.base_name == "_flash_attention_forward")
    backward = [op for op in ops if op.base_name == "_flash_attention_backward"][-1]  # of the first layer
    out, logsumexp = forward.outputs[:2]

    assert out.shape == (3, TOKENS, HEADS, 16)
    assert (logsumexp.shape, logsumexp.dtype) == ((3, HEADS, TOKENS), torch.float32)
    assert logsumexp.storage in {tensor.storage for tensor in backward.inputs}


def test_the_backward_pass_takes_what_flash_attn_allocates():
    backward = next(op for op in operations(FLASH) if op.base_name == "_flash_attention_backward")
    rounded = 256  # TOKENS, to the next 128
    sums, of_query = 4 * 3 * HEADS * rounded, 4 * 3 * HEADS * rounded * 32  # heads of 16 are rounded to 32
    expanded = 2 * 3 * TOKENS * HEADS * 16  # a gradient for every head, although two share a key

    assert scratch_of(backward, find_gpu("h100")).peak_bytes == sums + of_query + 2 * expanded


def test_a_head_that_is_too_wide_is_refused():
    workload = llama(hidden_size=1200)

    with pytest.raises(UsageError, match="heads that are at most 256 wide"):
        trace_training(workload, FLASH, H100)


def test_a_gpu_older_than_ampere_is_refused():
    with pytest.raises(UsageError, match="needs an Ampere GPU"):
        trace_training(llama(), mm.Recipe(attention="flash", precision="fp16"), (7, 5))


def test_a_model_whose_kernels_must_be_downloaded_is_refused():
    model = llama().build()
    model._compatible_flash_implementations = ["somebody/kernels"]
    model.model._compatible_flash_implementations = ["somebody/kernels"]

    with pytest.raises(UsageError, match="has no flash attention"):
        prepare_model(model, FLASH, to_trace=True)
