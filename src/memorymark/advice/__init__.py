"""What to change about a training: recipes ranked by what they gain, with code to paste."""

from memorymark.advice.advice import Advice, Option, Refused

__all__ = ["Advice", "Option", "Refused"]
