"""Calls that only captured programs understand, and why: what they are depends on the numbers of a run.

A text has formulas before it has numbers, so it refuses these and says how to ask instead.
"""

from __future__ import annotations

from collections.abc import Mapping

DRAWS = "it draws random numbers"
PLACES = "where its entries land depends on values"
COUNTED = "which entries belong together depends on values"
POSITIONS = "the whole numbers that it gives depend on values"

OF_RUNS: Mapping[str, str] = {
    **dict.fromkeys(("bernoulli", "normal", "poisson", "uniform", "exponential", "log_normal", "geometric"), DRAWS),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), f"{DRAWS} unless it is told training=False"),
    **dict.fromkeys(("cauchy", "multinomial", "alpha_dropout", "feature_alpha_dropout"), DRAWS),
    **dict.fromkeys(("masked_scatter", "index_put", "put", "as_strided_scatter"), PLACES),
    **dict.fromkeys(("segment_reduce", "embedding_bag", "ctc_loss", "multilabel_margin_loss"), COUNTED),
    **dict.fromkeys(("grouped_mm", "nanmedian", "nanquantile", "masked_select"), COUNTED),
    **dict.fromkeys(("argsort", "argmax", "argmin", "nonzero", "bincount", "searchsorted", "bucketize"), POSITIONS),
    **dict.fromkeys(("lu", "lu_factor", "lu_factor_ex", "lu_solve", "lu_unpack"), "its rows change places by values"),
    **dict.fromkeys(("householder_product", "orgqr", "ormqr"), "one reflection after the other is derived of what ran"),
    "fill_diagonal": "which entries lie on its diagonal depends on the sizes of a run",
    **dict.fromkeys(("frexp", "nextafter"), "how far it moves a number depends on the number"),
    **dict.fromkeys(("sampled_addmm", "sparse_sampled_addmm", "to_dense"), "what a sparse matrix stores is data"),
}
"""Functions by their last word."""
