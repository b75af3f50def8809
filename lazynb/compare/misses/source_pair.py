"""Pairs the source files and statements of two programs, and finds the user's edits."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence, Set
from types import CodeType

from lazynb.compare.matching import common_subsequence
from lazynb.compare.misses.source_syntax import Signatures, Source, Statement, names_bound_by, source_of
from lazynb.compare.misses.tree_edit import Edit, edit_between
from lazynb.running.miss_log import Miss
from lazynb.user_code.cells import history
from lazynb.user_code.source_lines import Place

_DEFINING = 20
"""Maximum number of cells searched for definitions."""

_GAP = 60
"""Statements between two pairs; in larger gaps only equal statements are paired."""

_OWN, _RECORDED = 20_000, 10_000
"""Bonus, in statements, for pairing the cells that caused the runs, and those that recorded the programs."""

_ALIKE = 0.5
"""Minimum unchanged share of a statement that counts as edited, not as replaced."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class UserEdit:
    """An edit, with the files and statements that contain it in both sources."""

    edit: Edit
    files: tuple[str, str]
    statements: tuple[Statement, Statement]


Located = tuple[str, Statement]
"""A file, and a statement in it."""


class Sources:
    """The user's code behind one program: cells that recorded it, and cells with the definitions that it
    uses.

    Attributes:
      texts: file → text, cells in the order of their last runs.
      recorded: the files that recorded operations.
      functions: the functions that they call and define.
    """

    def __init__(self, miss: Miss):
        self.texts = dict(_texts(miss))
        self.recorded = miss.sources.keys()
        self.functions = Signatures(map(source_of, self.texts.values()))

    def source(self, file: str) -> Source | None:
        """The source of a file; None if its text is unknown."""
        text = self.texts.get(file)
        return None if text is None else source_of(text)


@functools.lru_cache(maxsize=16)
def sources_of(miss: Miss) -> Sources:
    """The user's code behind the program of ``miss``; cached, because a miss is compared several times."""
    return Sources(miss)


def _texts(miss: Miss) -> Iterator[tuple[str, str]]:
    own = dict(miss.sources)
    if miss.spot.cell is not None:
        own.setdefault(miss.spot.file, miss.spot.cell[1])
    defining: dict[str, str] = {}
    left = _free_names(own.values()).difference(*[source_of(text).defined for text in own.values()])
    for run in reversed(history.runs_until(miss.time)):
        if not left or len(defining) >= _DEFINING:
            break
        if run.file in own or run.file in defining:
            continue
        defined = exported_names(run.text) & left
        if defined:
            defining[run.file] = run.text
            left = (left - defined) | _free_names([run.text])
    yield from reversed(defining.items())
    yield from own.items()


def _free_names(texts: Iterable[str]) -> set[str]:
    """The names that sources read and do not define."""
    names: set[str] = set()
    for text in texts:
        source = source_of(text)
        names |= source.words - source.defined
    return names


@functools.lru_cache(maxsize=2048)
def exported_names(text: str) -> Set[str]:
    """The names that a cell binds outside functions and classes, which other cells can use."""
    names: set[str] = set()
    inner = 0  # the last line of the preceding function or class
    for statement in source_of(text).statements:
        if statement.node.lineno > inner:
            names |= names_bound_by(statement.node)
            if isinstance(statement.node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                inner = statement.node.end_lineno or 0
    return names


class SourcePair:
    """The sources of two programs.

    Attributes:
      sides: the sources before and now.
      edits: the user's edits, in the order of the present sources.
      alone: for each side, the statements that only that source has, each with its file.
      likeness: similarity, from 0 to 1, of the cells that caused the runs or recorded the two programs.
      is_one_text: whether one text caused both runs.
    """

    def __init__(self, before: Miss, now: Miss):
        self.sides = sources_of(before), sources_of(now)
        self.edits: list[UserEdit] = []
        self.alone: tuple[list[Located], list[Located]] = [], []
        self._partners: tuple[dict[tuple[str, int], Located], ...] = {}, {}  # file and node id → partner
        self._old: dict[tuple[str, int], Statement] = {}  # file and node id now → statement before
        self._alike: dict[int, float] = {}  # node id of a present statement → similarity
        own = before.spot.file, now.spot.file
        self._ran = tuple({file, *side.recorded} for file, side in zip(own, self.sides, strict=True))
        pairs = list(self._paired_files(own))
        self.is_one_text = own in pairs and self._is_same(*own)
        alike = {pair: self._compare(*pair) for pair in pairs}
        # If other cells caused the runs, equal cells only contain functions that both call.
        shared = () if own in pairs else tuple(pair for pair in pairs if self._is_same(*pair))
        size = sum(self._size_of_ran(side, {pair[side] for pair in shared}) for side in (0, 1))
        self.likeness = sum(alike[pair] for pair in pairs if pair not in shared) / size if size else 0.0

    def _is_same(self, before: str, now: str) -> bool:
        return self.sides[0].texts[before] == self.sides[1].texts[now]

    def _size_of_ran(self, side: int, without: Set[str]) -> int:
        sources = filter(None, map(self.sides[side].source, self._ran[side] - without))
        return sum(statement.size for source in sources for statement in source.statements)

    def key(self, side: int, line: tuple[str, int], text: str) -> str:
        """Key that is equal for lines of corresponding statements; ``text`` if the line has no statement."""
        file, number = line
        source = self.sides[side].source(file)
        statement = source.at(number) if source is not None else None
        if statement is None:
            return text
        if side:
            statement = self._old.get((file, id(statement.node)), statement)
        return "\0".join(statement.key)

    def partner(self, side: int, line: tuple[str, int]) -> Located | None:
        """The partner, in the other source, of the statement on a line of ``side``; None if there is none."""
        source = self.sides[side].source(line[0])
        statement = source.at(line[1]) if source is not None else None
        return None if statement is None else self._partners[side].get((line[0], id(statement.node)))

    def is_partner(self, before: tuple[str, int], now: tuple[str, int]) -> bool:
        """Whether the statements of two lines correspond."""
        source, there = self.sides[0].source(before[0]), self.partner(1, now)
        statement = source.at(before[1]) if source is not None else None
        return there is not None and there[0] == before[0] and there[1] is statement

    def likeness_of_lines(self, before: Set[tuple[str, int]], now: Set[tuple[str, int]]) -> float:
        """Similarity of the statements of two sets of lines, from 0 to 1."""
        old, new = self._statements(0, before), self._statements(1, now)
        size = sum(statement.size for statement in (*old.values(), *new.values()))
        alike = 0.0
        for file, key in new:
            there = self._partners[1].get((file, key))
            if there is not None and (there[0], id(there[1].node)) in old:
                alike += 2 * min(there[1].size, new[file, key].size) * self._alike.get(key, 1.0)
        return alike / size if size else 0.0

    def _statements(self, side: int, lines: Set[tuple[str, int]]) -> dict[tuple[str, int], Statement]:
        found = {}
        for file, line in lines:
            source = self.sides[side].source(file)
            statement = source.at(line) if source is not None else None
            if statement is not None:
                found[file, id(statement.node)] = statement
        return found

    def is_edited(self, side: int, line: tuple[str, int]) -> bool:
        """Whether the statement on a line of ``side`` differs from its partner or has none."""
        source, there = self.sides[side].source(line[0]), self.partner(side, line)
        statement = source.at(line[1]) if source is not None else None
        return statement is None or there is None or statement.key != there[1].key

    def is_same_function(self, side: int, function: tuple[str, str, int], code: CodeType) -> bool:
        """Whether the function of ``code`` in the other source is ``function`` of ``side``, possibly edited.

        Arguments:
          function: name, file and first line.
        """
        name, file, line = function
        own, other = self.sides[side].source(file), self.sides[1 - side].source(code.co_filename)
        first = own.at(line) if own is not None else None
        second = other.at(code.co_firstlineno) if other is not None else None
        if name != code.co_name or own is None or other is None or first is None or second is None:
            return function == (code.co_name, code.co_filename, code.co_firstlineno)
        partner = self.partner(side, (file, line))
        if partner is not None:
            return partner[1] is second
        unpaired = self.partner(1 - side, (code.co_filename, code.co_firstlineno)) is None
        return unpaired and own.qualified_name(first) == other.qualified_name(second) is not None

    def is_unchanged(self, place: Place | None) -> bool:
        """Whether the line of ``place`` is also in the source before."""
        if place is None or not place.text:
            return False
        texts = self.sides[0].texts.values()
        return any(place.text == line.strip() for text in texts for line in text.splitlines())

    def statement_likeness(self, before: tuple[str, int], now: tuple[str, int]) -> float:
        """Similarity of the statements of two lines, from 0 to 1; 0 if they do not correspond."""
        source = self.sides[1].source(now[0])
        statement = source.at(now[1]) if source is not None else None
        if statement is None or self.key(0, before, "") != self.key(1, now, ""):
            return 0.0
        return self._alike.get(id(statement.node), 1.0)

    # ---- Pairing of files ----------------------------------------------------------------------------------

    def _paired_files(self, own: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """Pairs files: first those that ran, then those that define functions called by them."""
        for ran in (True, False):
            before, now = (
                {file: text for file, text in side.texts.items() if (file in own_ran) == ran}
                for side, own_ran in zip(self.sides, self._ran, strict=True)
            )
            yield from self._paired_among(before, now, own)

    def _paired_among(
        self, before: dict[str, str], now: dict[str, str], own: tuple[str, str]
    ) -> Iterator[tuple[str, str]]:
        for file, text in list(now.items()):
            same = file if before.get(file) == text else None
            same = same or next((other for other in before if before[other] == text), None)
            if same is not None:
                del before[same], now[file]
                yield same, file
        for file in list(now):
            scores = {other: self._shared(before[other], now[file]) for other in before}
            for other, score in scores.items():
                recorded = other in self.sides[0].recorded and file in self.sides[1].recorded
                is_own = (other, file) == own
                scores[other] += is_own if not score else _OWN * is_own + _RECORDED * recorded
            best = max(scores, key=scores.__getitem__, default=None)
            if best is not None and scores[best] > 0:
                del before[best]
                yield best, file

    @staticmethod
    def _shared(before: str, now: str) -> float:
        old, new = source_of(before), source_of(now)
        keys = {statement.key for statement in old.statements}
        same = sum(statement.key in keys for statement in new.statements)
        return same + len(old.defined & new.defined)

    # ---- Pairing of statements -----------------------------------------------------------------------------

    def _compare(self, before: str, now: str) -> float:
        """Pairs the statements of two files and returns the size of the similar part, if both ran."""
        old, new = self.sides[0].source(before), self.sides[1].source(now)
        assert old is not None and new is not None
        functions = self.sides[0].functions, self.sides[1].functions
        alike = 0.0
        pairs = _paired(old.statements, new.statements, functions)
        self._note_alone(before, old.statements, 0, pairs)
        self._note_alone(now, new.statements, 1, pairs)
        for a, b in pairs:
            self._old[now, id(b.node)] = a
            self._partners[0][before, id(a.node)] = now, b
            self._partners[1][now, id(b.node)] = before, a
            cost, edits = edit_between(a, b, functions)
            self._alike[id(b.node)] = 1 - cost / (a.size + b.size)
            alike += 2 * min(a.size, b.size) * (1 - cost / (a.size + b.size))
            self.edits += [UserEdit(edit, (before, now), (a, b)) for edit in edits]
        return alike if before in self._ran[0] and now in self._ran[1] else 0.0

    def _note_alone(self, file: str, statements: Sequence[Statement], side: int, pairs: Pairs) -> None:
        paired = {id(pair[side].node) for pair in pairs}
        alone = [statement for statement in statements if id(statement.node) not in paired]
        self.alone[side].extend((file, statement) for statement in alone)


Pairs = list[tuple[Statement, Statement]]


def _paired(
    before: Sequence[Statement], now: Sequence[Statement], functions: tuple[Signatures, Signatures]
) -> Pairs:
    pairs: Pairs = []
    i, j = 0, 0
    keys = [statement.key for statement in before], [statement.key for statement in now]
    for x, y in [*common_subsequence(*keys), (len(before), len(now))]:
        pairs += _edited(before[i:x], now[j:y], functions)
        if x < len(before) and y < len(now):
            pairs.append((before[x], now[y]))
        i, j = x + 1, y + 1
    return pairs


def _edited(
    before: Sequence[Statement], now: Sequence[Statement], functions: tuple[Signatures, Signatures]
) -> Pairs:
    """Pairs edited statements of a gap so that their total similarity is largest."""
    if not before or not now or max(len(before), len(now)) > _GAP:
        return []
    rows: list[tuple[float, Pairs]] = [(0.0, [])] * (len(now) + 1)
    for a in before:
        row: list[tuple[float, Pairs]] = [(0.0, [])]
        for n, b in enumerate(now):
            ways = [rows[n + 1], row[n]]
            alike = _likeness(a, b, functions)
            if alike > _ALIKE:
                ways.append((rows[n][0] + alike, [*rows[n][1], (a, b)]))
            row.append(max(ways, key=lambda way: way[0]))
        rows = row
    return rows[-1][1]


def _likeness(a: Statement, b: Statement, functions: tuple[Signatures, Signatures]) -> float:
    """Similarity of two statements, from 0 to 1."""
    if a.key == b.key:
        return 1.0
    if type(a.node) is not type(b.node):
        return 0.0
    cost, _ = edit_between(a, b, functions)
    bound = bool(
        names_bound_by(a.node) & names_bound_by(b.node)
    )  # statements that set the same variable likely correspond
    return max(0.0, 1 - cost / (a.size + b.size)) + 0.1 * bound
