"""What memory holds, by the module and the operation that made it."""

from memorymark.devices.allocations import Source
from memorymark.probe.kinds import Kinds
from memorymark.results.explanation import ModuleFacts

WIDTH = 1024
MODULES = {
    "": ModuleFacts("Model", "other"),
    "layers": ModuleFacts("ModuleList", "list"),
    "layers.0": ModuleFacts("Layer", "other"),
    "layers.0.attention": ModuleFacts("Attention", "other"),
    "layers.0.up": ModuleFacts("Linear", "linear"),
    "head": ModuleFacts("Linear", "linear"),
}
ATTENDS = Source("aten._scaled_dot_product_flash_attention.default", "layers.0.attention", (2, 8, 16, 64))
LOSS = Source("aten._log_softmax.default", "", (32, WIDTH))


def test_layers_as_wide_as_the_logits_hold_none():
    kinds = Kinds.of(MODULES, [ATTENDS, LOSS], 0)

    assert kinds.of_block(Source("aten.mm.default", "head", (32, WIDTH)), lasting=False) == "logits"
    assert kinds.of_block(LOSS, lasting=False) == "logits"
    assert kinds.of_block(Source("aten.mm.default", "layers.0.up", (32, WIDTH)), lasting=False) == "mlp"
    assert kinds.of_block(Source("aten.mm.default", "layers.0.attention", (32, WIDTH)), lasting=False) == "attention"
