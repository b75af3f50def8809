"""Calls of pandas with lazy arguments, each a function of a vector of twelve float32 numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

matplotlib.use("agg")
TABLE = pd.DataFrame({"a": np.arange(12.0), "b": np.arange(12)[::-1] % 4})


def changed(x: Any, change: Callable[[Any, Any], None]) -> Any:
    """A copy of the table after ``change``, which gets the copy and the sines."""
    table = TABLE.copy()
    change(table, np.sin(x))
    return table


def _cells(table: Any, y: Any) -> None:
    table.loc[y > 0, "a"] = 9.0
    table.at[0, "a"] = y.max()
    table.iloc[np.argmin(y), 1] = 7
    table["c"] = y


CALLS: dict[str, Callable[[Any], Any]] = {
    "mask": lambda x: TABLE[np.sin(x) > 0],
    "loc_mask": lambda x: TABLE.loc[np.sin(x) > 0, "a"],
    "iloc_number": lambda x: TABLE.iloc[np.argmax(np.sin(x)) * 1],
    "iloc_numbers": lambda x: TABLE.iloc[np.argsort(np.sin(x))],
    "cells": lambda x: changed(x, _cells),
    "insert": lambda x: changed(x, lambda table, y: table.insert(1, "n", y)),
    "assign": lambda x: TABLE.assign(c=np.sin(x) * 2),
    "dict": lambda x: pd.DataFrame({"x": np.sin(x), "z": np.cos(x)}),
    "matrix": lambda x: pd.DataFrame(np.sin(x).reshape(3, 4), columns=list("abcd")),
    "records": lambda x: pd.DataFrame([{"m": v.mean(), "s": v.std()} for v in np.sin(x).reshape(3, 4)]),
    "lists": lambda x: pd.DataFrame([[v, v * 2] for v in np.sin(x)]),
    "series": lambda x: pd.Series(np.sin(x), name="k").rolling(3).mean(),
    "operators": lambda x: (
        TABLE.a + np.sin(x),
        TABLE.a > np.sin(x),
        np.sin(x) * TABLE.a,
        TABLE.T @ np.sin(x),
    ),
    "series_mask": lambda x: TABLE.a[np.sin(x) > 0],
    "where": lambda x: TABLE.a.where(np.sin(x) > 0, np.cos(x)),
    "clip": lambda x: TABLE.a.clip(np.sin(x).min(), np.sin(x).max()),
    "isin": lambda x: TABLE.a.isin(np.round(np.sin(x) * 3)),
    "groupby": lambda x: TABLE.groupby(np.sin(x) > 0).a.sum(),
    "cut": lambda x: (pd.cut(np.sin(x), np.linspace(-1, 1, 5)).codes, pd.qcut(np.sin(x), 4).codes),
    "factorize": lambda x: (*pd.factorize(np.round(np.sin(x))), pd.unique(np.round(np.sin(x)))),
    "categories": lambda x: pd.Categorical(np.round(np.sin(x))).categories,
    "levels": lambda x: pd.MultiIndex.from_arrays([np.round(np.sin(x)), np.arange(12)]).levels[0],
    "index": lambda x: TABLE.a.reindex(np.argsort(np.sin(x))),
    "drop": lambda x: TABLE.drop(np.argsort(np.sin(x))[:2]),
    "query": lambda x: TABLE.query("a > @t", local_dict={"t": np.sin(x).mean()}),
    "merge": lambda x: pd.DataFrame({"k": np.round(np.sin(x)), "v": 1}).merge(
        pd.DataFrame({"k": np.round(np.sin(x[:3])), "w": 2}), on="k"
    ),
    "isna": lambda x: (pd.isna(np.sin(x)), bool(pd.isna(np.sin(x).max()))),
    "numbers": lambda x: pd.to_numeric(np.sin(x)),
    "boxes": lambda x: len(plt.figure().gca().boxplot(np.sin(x).reshape(3, 4))["boxes"]),
    "bars": lambda x: plt.figure().gca().errorbar(np.arange(12), np.sin(x), yerr=np.abs(x))[0].get_ydata(),
}


def plain(result: Any) -> Any:
    """``result`` with arrays in the place of pandas' own."""
    if isinstance(result, tuple | list):
        return [plain(part) for part in result]
    if isinstance(result, pd.DataFrame):
        return [plain(result.index), list(result.columns), *(result[name].to_numpy() for name in result)]
    if isinstance(result, pd.Series):
        return [plain(result.index), result.to_numpy()]
    return result.to_numpy() if isinstance(result, pd.Index) else result
