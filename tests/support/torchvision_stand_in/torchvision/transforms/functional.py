from enum import Enum

InterpolationMode = Enum("InterpolationMode", ["NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS"])
