"""The experiments of the max-min margin paper, one command each: ``python -m experiments``."""
