"""Experts that look up their tokens: how many they get is assumed, and the worst is an upper bound."""

from copy import deepcopy

import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.routing import assumed

EXPERTS, CHOSEN, WIDTH, HIDDEN, TOKENS = 4, 2, 16, 256, 8
SWITCH = {
    "model_type": "switch_transformers",
    "vocab_size": 100,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "num_experts": 4,
}


class Mixture(nn.Module):
    """As people write it by hand: each expert is given the tokens that chose it."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        layers = (nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))
        self.experts = nn.ModuleList(nn.Sequential(*deepcopy(layers)) for _ in range(EXPERTS))

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, choices = torch.topk(self.router(rows).softmax(-1), CHOSEN)
        result = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            token, place = torch.nonzero(choices == number, as_tuple=True)
            result = result.index_add(0, token, expert(rows[token]) * weights[token, place, None])
        return result


def mixture():
    return mm.Workload(
        Mixture,
        lambda size, device: {"x": torch.randn(size, TOKENS, WIDTH, device=device)},
        lambda model, batch: model(**batch).square().mean(),
    )


def rows_of_experts(step, batch_size):
    """Returns how many tokens each expert multiplies in the forward pass."""
    products = (g.at(batch_size) for g in step.later.operations if g.operation.name == "aten.addmm.default")
    _, *rows = (product.outputs[0].shape[0] for product in products)  # without the router's
    return rows[::2]


def test_a_token_s_choices_differ_and_experts_get_equally_many():
    choices = assumed(torch.empty(6, CHOSEN), torch.empty(6, EXPERTS), "even")

    assert all(len(set(row)) == CHOSEN for row in choices.tolist())
    assert choices.flatten().bincount().tolist() == [3, 3, 3, 3]


def test_at_worst_all_tokens_go_to_the_same_experts_and_no_expert_is_left_out():
    counts = assumed(torch.empty(50, CHOSEN), torch.empty(50, EXPERTS), "worst").flatten().bincount().tolist()

    assert sum(counts) == 100
    assert min(counts) >= 1
    assert sum(sorted(counts)[-CHOSEN:]) >= 95


def test_experts_that_look_up_their_tokens_are_traced_with_even_and_with_the_worst_routing():
    step = trace_training(mixture(), mm.Recipe(), (9, 0))

    assert rows_of_experts(step, 10) == [10 * TOKENS * CHOSEN // EXPERTS] * EXPERTS
    assert step.facts.routing_matters
    assert step.worst is not None
    assert max(rows_of_experts(step.worst, 10)) > 0.9 * 10 * TOKENS


def test_the_worst_routing_is_an_upper_bound_of_the_memory():
    trial = mm.predict(mixture(), batch_size=2**14, gpu="h100")

    assert trial.intervals["peak_allocated_bytes"][1] > 1.05 * trial.peak_allocated_bytes


def test_a_mixture_whose_router_casts_itself_and_names_its_experts_is_predicted():
    trial = mm.predict("mine", config=SWITCH, task="seq2seq-lm", batch_size=2, seq_len=8, gpu="h100")

    assert trial.fits


def test_a_choice_compared_with_random_labels_is_not_assumed():
    class PicksWhatIsRight(nn.Linear):
        def forward(self, x):
            scores = super().forward(x.repeat(64, 1))  # so many that chance never makes them all right or all wrong
            return scores[scores.argmax(-1) == torch.randint(3, (len(scores),))]

    workload = mm.Workload(
        lambda: PicksWhatIsRight(4, 3),
        lambda size, device: {"x": torch.randn(size, 4, device=device)},
        lambda model, batch: model(**batch).sum(),
    )
    with pytest.raises(mm.CannotPredictError, match="only a run knows"):
        trace_training(workload, mm.Recipe(), (9, 0))
