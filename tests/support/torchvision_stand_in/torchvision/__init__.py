"""Just what timm imports."""
