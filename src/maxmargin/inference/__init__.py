"""Decoding: the best labelling of packed factor graphs, and upper bounds of its score."""
