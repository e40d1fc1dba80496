"""flash-attn's kernels in plain PyTorch on the CPU: the same arguments and results, computed the slow way."""

from contextlib import contextmanager

import torch


@contextmanager
def flash_kernels_on_the_cpu():
    """Registers them as torch's own for tensors on the CPU."""
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("_flash_attention_forward", forward, "CPU")
        library.impl("_flash_attention_backward", backward, "CPU")
        yield
    finally:
        library._destroy()


def forward(q, k, v, begins, begins_k, longest, longest_k, dropout, causal, _, *, scale, **window):
    assert not dropout and set(window.values()) == {-1} and q.shape[-1] % 8 == 0
    assert longest == longest_k == max(len(text) for text in texts_of(q, begins))
    attended = [attend(*text, causal, scale) for text in zip(*(texts_of(t, begins) for t in (q, k, v)), strict=True)]
    out = together([values for values, _, _ in attended], begins)
    sums = [scores.logsumexp(-1) for _, scores, _ in attended]
    logsumexp = torch.stack(sums) if begins is None else torch.cat(sums, 1)
    return out, logsumexp, torch.zeros(2, dtype=torch.uint64), torch.zeros((), dtype=torch.uint64), q.new_empty(0)


def backward(gradient, q, k, v, out, logsumexp, begins, *others, scale, **_):
    causal = others[4]
    tensors = (texts_of(t, begins) for t in (gradient, q, k, v, out))
    found = [gradients_of(*text, causal, scale) for text in zip(*tensors, strict=True)]
    return tuple(together(parts, begins) for parts in zip(*found, strict=True))


def texts_of(tensor, begins):
    """Each text's tensor: [tokens, heads, width]."""
    return list(tensor) if begins is None else tensor.split(begins.diff().tolist())


def together(texts, begins):
    return torch.stack(texts) if begins is None else torch.cat(texts)


def attend(q, k, v, causal, scale):
    """Returns the result, the scores of every head, and its keys."""
    k, v = by_head(k, q), by_head(v, q)
    scores = q.transpose(0, 1) @ k.transpose(1, 2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(0, 1), scores, k


def gradients_of(gradient, q, k, v, out, causal, scale):
    _, scores, keys = attend(q, k, v, causal, scale)
    weights, of_out = scores.softmax(-1), gradient.transpose(0, 1)
    of_scores = weights * (of_out @ by_head(v, q).transpose(1, 2) - (gradient * out).sum(-1).T[..., None])
    of_q, of_k = of_scores @ keys * scale, of_scores.transpose(1, 2) @ q.transpose(0, 1) * scale
    of_v = weights.transpose(1, 2) @ of_out
    shared = [one.unflatten(0, (k.shape[1], -1)).sum(1).transpose(0, 1) for one in (of_k, of_v)]
    return of_q.transpose(0, 1), *shared


def by_head(tensor, q):
    return tensor.transpose(0, 1).repeat_interleave(q.shape[1] // tensor.shape[1], 0)
