import torch
from torch import nn

import memorymark as mm
from memorymark.prediction.tracing.fake_step import trace_training

FRAMES, LETTERS, SYMBOLS = 20, 6, 8


def lengths(size):
    return ([LETTERS, LETTERS // 2] * size)[:size]


class Speller(nn.Module):
    """Spells sounds; its texts have 6 and 3 letters in turn."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, SYMBOLS)

    def forward(self, sounds, letters):
        size = sounds.shape[0]
        scores = self.head(sounds).log_softmax(-1).transpose(0, 1)
        return nn.functional.ctc_loss(scores, letters, torch.full((size,), FRAMES), torch.tensor(lengths(size)))


def batch(size, device):
    letters = torch.ones(sum(lengths(size)), dtype=torch.long, device=device)
    return {"sounds": torch.rand(size, FRAMES, 4, device=device), "letters": letters}


def made_by_loss(operations, size):
    losses = [growth for growth in operations if growth.operation.base_name == "_ctc_loss"]
    return [[tensor.shape for tensor in growth.at(size).outputs] for growth in losses]


def test_the_table_of_a_ctc_loss_is_as_wide_as_the_longest_text_is_long():
    workload = mm.Workload(build=Speller, batch=batch, loss=lambda model, given: model(**given))
    step = trace_training(workload, mm.Recipe(), (9, 0))
    sounds = batch(3, "cpu")
    real = torch.ops.aten._ctc_loss(
        Speller().head(sounds["sounds"]).log_softmax(-1).transpose(0, 1),
        sounds["letters"], [FRAMES] * 3, lengths(3),
    )  # fmt: skip

    assert made_by_loss(step.later.operations, 3) == [[tuple(tensor.shape) for tensor in real]]
