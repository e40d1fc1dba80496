from enum import Enum

__version__ = "12.0.0"


class Image:
    """The module that timm takes ways to resize an image from."""

    Resampling = Enum("Resampling", ["NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS"])


ImageOps = ImageEnhance = ImageChops = ImageFilter = None
