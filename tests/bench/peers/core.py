"""The lesson's computation, shared by the peer apps so that every one of them does the same work."""

import torch
from torch import nn

LESSON = [[1.16, 0.23], [0.57, 1.36], [4.41, -2.16]]
STEPS = ["q", "k", "v", "scores", "masked", "weights", "output"]


def trace(encodings, seed=42):
    """Masked self-attention of `encodings` (list of n rows of d floats) -> dict of step name -> nested list."""
    x = torch.tensor(encodings, dtype=torch.float32)
    d = x.shape[1]
    torch.manual_seed(seed)
    w_q, w_k, w_v = (nn.Linear(d, d, bias=False) for _ in range(3))
    with torch.no_grad():
        q, k, v = w_q(x), w_k(x), w_v(x)
        scores = q @ k.T / d**0.5
        hidden = torch.ones_like(scores).tril() == 0
        weights = scores.masked_fill(hidden, -1e9).softmax(-1)
        masked = scores.masked_fill(hidden, float("nan"))
        values = (q, k, v, scores, masked, weights, weights @ v)
    return {name: value.tolist() for name, value in zip(STEPS, values, strict=True)}
