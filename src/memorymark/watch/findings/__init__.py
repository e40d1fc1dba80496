"""What can be wrong with a training, each finding with its reason in numbers. Pure: facts in, sentences out."""
