"""The laboratory: attention written the wrong way, really run, beside the right way.

Each module is one kind of mistake, a function of a trace that returns cases; nothing here draws.

    case        Case, one way of writing it beside the right one; Way, the code that runs and is shown
    dialects    one mask handed to five interfaces
    fills       what hidden scores are filled with, in four number types
    rows        rows in which every key is hidden
    placement   the mask before the softmax, after it, twice
    alignment   fewer queries than keys
    small       more ways, most of them on a few numbers of their own

What a case shows as code is the source of the function that ran.
"""

from attention.laboratory import alignment, dialects, fills, placement, rows, small
from attention.laboratory.case import Beside, Case, Refusal, Way

__all__ = ["Beside", "Case", "Refusal", "Way", "alignment", "dialects", "fills", "placement", "rows", "small"]
