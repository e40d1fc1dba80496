from torch import nn


class FrozenBatchNorm2d(nn.Module):
    """timm asks whether a layer is one, which no model is as it is built."""
