"""Questions: a model, the shape of its samples, a recipe, a target, and what to find out."""
