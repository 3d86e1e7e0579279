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

and, where an experiment's `Model` or second sequence asks for them:

    positions       n x d_model        added to the encodings, which are then `positioned`
    key_encodings   n_k x d_model      the second sequence, to which keys and values belong (also key_positions, ...)
    rotated_q, _k   n_q, n_k x d_k     queries and keys turned by their positions; the similarities are theirs
    distances       n_q x n_k          what distance takes off: biased_scores = scores + distances
    capped_scores   n_q x n_k          soft_cap tanh(score / soft_cap), before the mask
    joined          n_q x (heads d_v)  the heads' outputs side by side
    w_o, projected  d_model x d_model  as nn.Linear stores it; joined @ w_o.T, n_q x d_model

This package needs torch alone; only attention.figures needs plotly, and only attention.ui needs streamlit.
"""

from attention import checks, devices, lessons, masks
from attention.core import Decoded, HeadTrace, Trace, attend, decode, run
from attention.diagnose import Finding, diagnose
from attention.experiment import LIMITS, Experiment, ExperimentError, Limits
from attention.explain import Derivation, explain
from attention.model import Model
from attention.modules import Attention, MaskedSelfAttention, MultiHeadAttention, SelfAttention
from attention.notebook import show
from attention.watch import WatchedLine, watch

__all__ = [
    "LIMITS",
    "Attention",
    "Decoded",
    "Derivation",
    "Experiment",
    "ExperimentError",
    "Finding",
    "HeadTrace",
    "Limits",
    "MaskedSelfAttention",
    "Model",
    "MultiHeadAttention",
    "SelfAttention",
    "Trace",
    "WatchedLine",
    "attend",
    "checks",
    "decode",
    "devices",
    "diagnose",
    "explain",
    "lessons",
    "masks",
    "run",
    "show",
    "watch",
]
