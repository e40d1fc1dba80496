import pytest

import memorymark as mm
from memorymark.results.analysis import Analysis

LLAMA = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000}  # fmt: skip
ROW, MEAN = 1024, 128


def analyzed(**options):
    return mm.analyze("own", config=LLAMA, gpu="h100", memory_gib=4, precision="bf16", seq_len=ROW, **options)


@pytest.fixture(scope="module")
def packed():
    return analyzed(packed=True, mean_tokens=MEAN)


def test_the_worst_case_is_a_row_of_one_sample(packed):
    worst = packed.packing

    assert worst.longest_max_batch_size > packed.max_batch_size  # no mask keeps samples apart
    assert worst.longest.peak_allocated_bytes < packed.recommended.peak_allocated_bytes


def test_the_gain_is_what_padding_would_waste(packed):
    packing, typical = packed.packing, packed.recommended
    of_padding = MEAN * packing.longest.samples_per_second

    assert packing.samples_per_row == ROW / MEAN
    assert packing.gain == pytest.approx(typical.tokens_per_second / of_padding)


def test_flash_attention_needs_no_mask_to_keep_samples_apart(packed):
    flash = analyzed(packed=True, mean_tokens=MEAN, attention="flash")

    assert flash.max_batch_size > 1.1 * packed.max_batch_size
    assert flash.packing.longest_max_batch_size == pytest.approx(flash.max_batch_size, rel=0.02)


def test_the_document_reads_back(packed):
    assert Analysis.from_dict(packed.to_dict()).packing == packed.packing
