"""Masked self-attention with every number in sight: an Experiment in, a Trace out.

    >>> from attention import lessons, run
    >>> trace = run(lessons.masked_self_attention())
    >>> trace.output
    tensor([[ 0.6038,  0.7434],
            [-0.0062,  0.6072],
            [ 3.4989,  2.2427]])

The words, used everywhere (rows are queries, columns are keys):

    name            shape              is                                        the course's code calls it
    encodings       n x d_model        one row a token                           encodings_matrix
    w_q w_k w_v     d_model x d_model  as nn.Linear stores them: q = x @ w_q.T   W_q.weight, W_k.weight, W_v.weight
    q k v           n x d              queries, keys, values                     q, k, v
    similarities    n_q x n_k          q @ k.T                                   sims
    scores          n_q x n_k          similarities / sqrt(d_k)                  scaled_sims
    mask            n_q x n_k bool     True = hidden                             mask
    masked_scores   n_q x n_k          scores, hidden ones replaced by the fill  scaled_sims, after masked_fill
    weights         n_q x n_k          softmax of each row                       attention_percents
    output          n_q x d_v          weights @ v                               attention_scores

This package needs torch alone; only attention.figures needs plotly, and only attention.ui needs streamlit.
"""

from attention import checks, devices, lessons, masks
from attention.core import HeadTrace, Trace, attend, run
from attention.diagnose import Finding, diagnose
from attention.experiment import LIMITS, Experiment, ExperimentError, Limits
from attention.explain import Derivation, explain
from attention.modules import Attention, MaskedSelfAttention, MultiHeadAttention, SelfAttention
from attention.notebook import show
from attention.watch import WatchedLine, watch

__all__ = [
    "LIMITS",
    "Attention",
    "Derivation",
    "Experiment",
    "ExperimentError",
    "Finding",
    "HeadTrace",
    "Limits",
    "MaskedSelfAttention",
    "MultiHeadAttention",
    "SelfAttention",
    "Trace",
    "WatchedLine",
    "attend",
    "checks",
    "devices",
    "diagnose",
    "explain",
    "lessons",
    "masks",
    "run",
    "show",
    "watch",
]
