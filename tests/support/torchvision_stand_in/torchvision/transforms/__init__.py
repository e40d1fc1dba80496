class ToTensor:
    """timm derives from it."""
