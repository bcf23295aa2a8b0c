"""Outputs with latent variables: what they are, how they are searched, how they are trained.

From what users write to what solvers see:

- ``variables``: :class:`Latent`, an output space together with a latent space; ``spaces`` has the
  output spaces (draws, local moves, enumeration, distortion);
- ``problem``: the questions about packed examples (explanations, searches, features), which
  ``pairs``, ``matching`` and ``chain`` answer with compiled oracles (``kernels``), and ``python``
  by calling the methods of the user's own classes;
- ``objective``: the training problems made of these answers: convex ones, in which explanations are
  fixed, and those over random structures;
- ``solvers``: dual ascent over remembered structures, and stochastic subgradients;
- ``assumptions``: whether proposals are what the theorems assume: beta, low norm;
- ``certificates``: what can be promised about predictions: distortion, bounds.

:class:`maxmargin.LatentPredictor` puts them together: rounds of explaining and convex training come
from :mod:`maxmargin.solvers.rounds`, checks, callbacks and Ctrl-C from
:mod:`maxmargin.solvers.loop`.
"""
