import pytest

from memorymark.errors import UsageError
from memorymark.question.recipe import Recipe


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"strategy": "fsdp"}, 'strategy="fsdp" is for several GPUs, and there is one; add gpus=8, or drop it'),
        ({"nodes": 2}, "nodes=2 needs as many GPUs at least; raise gpus="),
        ({"gpus": 8, "nodes": 3}, "gpus=8 cannot be spread evenly over nodes=3; change one of them"),
        ({"gpus": 8, "strategy": "hsdp"}, 'strategy="hsdp" shards within machines .* use strategy="fsdp"'),
        ({"gpus": 8, "nodes": 8, "strategy": "hsdp"}, "several GPUs each"),
        ({"gpus": 8, "strategy": "pipeline"}, "unknown strategy 'pipeline'; use one of auto, ddp"),
        ({"gpus": 0}, "gpus= must be 1 or more, not 0"),
        ({"gpus": 8, "offload": "activations"}, 'offload="activations" is not predicted for several GPUs'),
        ({"gpus": 8, "compile": True}, "compile= is not predicted for several GPUs"),
        ({"gpus": 8, "strategy": "zero1", "optimizer": "lion"}, 'optimizer="lion" .* with strategy="zero1" yet'),
        ({"gpus": 8, "strategy": "fsdp", "precision": "fp16"}, 'precision="fp16" .* with strategy="fsdp" yet'),
        ({"gpus": 8, "strategy": "fsdp", "allocator": "expandable"}, 'allocator="expandable" .* yet'),
        ({"gpus": 8, "lora": 8, "weights": "nf4"}, 'weights="nf4" .* with strategy="ddp" yet'),
        ({"tensor_parallel": 4}, "tensor_parallel=4 needs as many GPUs; raise gpus="),
        ({"gpus": 8, "tensor_parallel": 3}, "the 8 GPUs of a machine cannot be .* tensor_parallel=3"),
        ({"gpus": 16, "nodes": 4, "tensor_parallel": 8}, "the 4 GPUs of a machine cannot be divided"),
        ({"gpus": 8, "tensor_parallel": 8, "strategy": "fsdp"}, 'leaves no GPUs for strategy="fsdp"; lower it'),
        ({"gpus": 8, "tensor_parallel": 2, "strategy": "ddp"}, 'strategy="ddp" copies whole layers'),
        ({"gpus": 8, "tensor_parallel": 2, "lora": 8}, "lora=8 adds layers that tensor_parallel= has no plan for"),
        ({"gpus": 8, "tensor_parallel": 8, "precision": "fp16"}, 'precision="fp16" .* with tensor_parallel=8 yet'),
        ({"gpus": 16, "nodes": 8, "tensor_parallel": 2, "strategy": "hsdp"}, 'strategy="hsdp" shards within machines'),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(options, complaint):
    with pytest.raises(UsageError, match=complaint):
        Recipe(**options)


def test_several_gpus_copy_the_model_unless_told_otherwise():
    assert Recipe(gpus=2).strategy == "ddp"
    assert Recipe().strategy == "auto"
    assert Recipe(gpus=2, strategy="FSDP2").strategy == "fsdp"
    assert Recipe(gpus=16, nodes=2, strategy="hsdp").describe() == "fp32, AdamW, 16 GPUs, 2 machines, HSDP"


def test_beside_shared_layers_weights_are_cut_too():
    assert Recipe(gpus=8, tensor_parallel=2).strategy == "fsdp"
    assert Recipe(gpus=8, tensor_parallel=8).used_strategy is None
    assert Recipe(gpus=8, tensor_parallel=8).describe() == "fp32, AdamW, 8 GPUs, tensor parallel over 8"


def test_a_recipe_of_several_gpus_reads_back():
    recipe = Recipe(gpus=16, nodes=2, strategy="hsdp")
    assert Recipe(**recipe.to_dict()) == recipe


@pytest.mark.parametrize(
    ("recipe", "bytes_per_parameter"),
    [
        (Recipe(gpus=8), 16),
        (Recipe(gpus=8, strategy="zero1"), 9),
        (Recipe(gpus=8, strategy="fsdp"), 2),
        (Recipe(gpus=8, strategy="zero2"), 5.5),
        (Recipe(gpus=8, nodes=2, strategy="hsdp"), 4),
        (Recipe(gpus=8, tensor_parallel=8), 2),
        (Recipe(gpus=16, tensor_parallel=2, strategy="fsdp"), 1),
    ],
)
def test_each_gpu_needs_its_part_of_weights_gradients_and_state(recipe, bytes_per_parameter):
    assert recipe.least_bytes(1000) == 1000 * bytes_per_parameter
