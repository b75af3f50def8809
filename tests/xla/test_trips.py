"""How often a loop turns, where XLA does not write it down; the truth stands beside each module."""

from __future__ import annotations

import pytest

from lazynb.xla.cost.kernel_cost import trip_count
from lazynb.xla.hlo.module import parse

MODULE = """HloModule m

%condition (t: (s32[], f32[4])) -> pred[] {{
  %t = (s32[], f32[4]) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %n = s32[] constant({limit})
  ROOT %lt = pred[] compare(%i, %n), direction={direction}
}}

%body (u: (s32[], f32[4])) -> (s32[], f32[4]) {{
  %u = (s32[], f32[4]) parameter(0)
  %j = s32[] get-tuple-element(%u), index=0
  %copy = s32[]{{:T(128)S(6)}} copy(%j)
  %step = s32[] constant({step})
  %next = s32[] {grow}(%copy, %step)
  %x = f32[4] get-tuple-element(%u), index=1
  ROOT %out = (s32[], f32[4]) tuple(%next, %x)
}}

ENTRY %main (a: f32[4], k: s32[]) -> (s32[], f32[4]) {{
  %a = f32[4] parameter(0)
  %k = s32[] parameter(1)
  %zero = s32[]{{:T(128)}} constant(3)
  %init = s32[]{{:T(128)S(6)}} copy({first})
  %whole = (s32[], f32[4]) tuple(%init, %a)
  ROOT %while = (s32[], f32[4]) while(%whole), condition=%condition, body=%body
}}
"""

KNOWN = {"limit": 16, "direction": "LT", "step": 1, "grow": "add", "first": "%zero"}


@pytest.mark.parametrize(
    "changed, turns",
    [
        ({}, 13),
        ({"step": 4}, 4),  # 3, 7, 11, 15
        ({"limit": 2}, 0),
        ({"limit": -5}, 0),
        ({"first": "%k"}, None),
        ({"direction": "GT"}, None),
        ({"direction": "LE"}, None),
        ({"grow": "multiply"}, None),
        ({"step": 0}, None),
        ({"step": -1}, None),
    ],
)
def test_the_trip_count_of_a_counter_with_a_limit_is_computed(changed, turns):
    module = parse(MODULE.format(**{**KNOWN, **changed}))
    assert trip_count(module, module.by_name["while"]) == turns


def test_a_trip_count_written_by_xla_takes_precedence():
    text = MODULE.format(**KNOWN).replace(
        "body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}'
    )
    module = parse(text)
    assert trip_count(module, module.by_name["while"]) == 7
