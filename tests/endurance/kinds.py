"""The kinds of statements that programs are made of.

Values are whole numbers below 16 in float32 (or int32), so that every order and fusion of the arithmetic gives the same bits: what
differs is wrong. Variables: ``w``, ``x``, ``y``, ``z`` arrays of one size, ``n`` a number, ``l`` a list, ``b`` NumPy memory that JAX
takes as it is, ``v`` views, ``t`` results that are read. Nothing holds an array made from ``b`` without computing something
from it: eager JAX itself lets such an array change with ``b``.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator

SETUP = """\
w = jnp.arange({size}, dtype=jnp.float32) % 7
x = jnp.arange({size}, dtype=jnp.float32) % 5
y = jnp.ones({size}, jnp.int32)
z = jnp.full({size}, 3.0, jnp.float32)
n, k = 2.0, 3
l, v, t = [], None, None
b = aligned({size})
p = np.arange({size}, dtype=np.float32) % 11
bump = jax.jit(step)
hand = jax.jit(step, donate_argnums=0)
give = taking(hand)
ready = taking(jax.jit(step, donate_argnums=0).lower(jax.ShapeDtypeStruct(({size},), jnp.float32)).compile())
"""


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement of a program.

    Attributes:
      source: its text.
      repeat: how many rounds of it are run, as the body of a loop.
      destroys: variables whose memory it gives away as the user asked: an interrupt may come between that and its end, in eager
        JAX too.
      keeps: of these variables, those that hold their old value or the new one after an interrupt.
      deferred: eager JAX raises in it; lazily the error may come when what it bound is read.
      calm: no signal arrives in it: an interrupt inside a setting that JAX makes for a while leaves it made, in eager JAX too.
      elsewhere: leaves in another thread what it entered in this one, which then stays eager until its body ends.
      kind: the name of its kind.
    """

    source: str
    repeat: int = 1
    destroys: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    deferred: bool = False
    calm: bool = False
    elsewhere: bool = False
    kind: str = ""


@dataclasses.dataclass
class Scene:
    """What a program's next statement depends on.

    Attributes:
      closing: statements that the program ends with.
    """

    draw: random.Random
    style: str
    size: int
    closing: list[Statement] = dataclasses.field(default_factory=list)
    arrays = ("w", "x", "z")
    made: int = 0

    def array(self) -> str:
        """A variable that holds an array of numbers."""
        return self.draw.choice(self.arrays)

    def name(self, letter: str) -> str:
        """A variable that no other statement has."""
        self.made += 1
        return f"{letter}{self.made}"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of statements; ``styles``: those of programs that it can be in, all where empty."""

    name: str
    weight: float
    make: Callable[[Scene], Iterator[Statement]]
    styles: tuple[str, ...] = ()


KINDS: list[Kind] = []


def kind(weight: float = 1.0, styles: tuple[str, ...] = ()) -> Callable[[Callable[[Scene], Iterator[Statement]]], None]:
    """Enters the decorated function among the kinds."""
    def enter(make: Callable[[Scene], Iterator[Statement]]) -> None:
        KINDS.append(Kind(make.__name__, weight, make, styles))
    return enter


def simple(name: str, weight: float, *sources: str, repeat: tuple[int, ...] = (1,), destroys: str = "", deferred: bool = False,
           calm: bool = False, elsewhere: bool = False, fresh: str = "", closing: str = "", styles: tuple[str, ...] = ()) -> None:
    """Enters a kind whose statements are one of ``sources``, with ``{a}`` and ``{c}`` for arrays, ``{i}`` for a small number, ``{q}``
    for a variable of its own, ``{size}``.

    Arguments:
      destroys: ``{a}`` where the memory of the array is given away.
      fresh: what follows at the end of the program or some statements later, where the statement leaves ``{a}`` deleted.
      closing: what the program must end with.
    """
    def make(scene: Scene) -> Iterator[Statement]:
        a = scene.array()
        c = scene.draw.choice([one for one in scene.arrays if one != a])
        words = {"a": a, "c": c, "i": scene.draw.randrange(2, 9), "q": scene.name("q"), "size": scene.size}
        lost = (destroys.format(**words),) if destroys else ()
        yield Statement(scene.draw.choice(sources).format(**words), scene.draw.choice(repeat), lost, (), deferred, calm, elsewhere)
        if closing:
            scene.closing.append(Statement(closing.format(**words)))
        if fresh:
            if scene.draw.random() < 0.5:
                yield Statement(scene.draw.choice(sources_of("use")).format(**words))
            yield Statement(fresh.format(**words))
    KINDS.append(Kind(name, weight, make, styles))


def sources_of(what: str) -> tuple[str, ...]:
    """Statements of a few common kinds."""
    return _COMMON[what]


_COMMON = {
    "use": ("{c} = ({a} + {c}) % 16", "l = l[-2:] + [{a} * 2 % 16]", "t = float({c}[0])"),
}
FRESH = "{a} = jnp.arange({size}, dtype=jnp.float32) % {i}"

# The first three are in every program.
simple("arithmetic", 3, "{a} = ({a} * {i} + 1) % 16", "{a} = ({a} + {c}) % 16", "{a} = jnp.where({c} > {i}, {a}, {c})", "{a} = step({a})",
       "y = (y + {i}) % 8", "n = n + 1", "n = ({a}[0] + n) % 16", "{a} = {c}", "{a} = jnp.maximum({a}, {c}) * n % 16")
simple("training", 3, "{a} = step({a})\nt = float({a}[0])", "{a} = step({a})\nlazynb.sync()", "{a} = ({a} + {c}) % 16\nlazynb.sync({a})",
       "{a} = step({a}); t = float({a}.max())", "{a} = bump({a})\nt = float({a}[1])", repeat=(2, 2, 3, 3, 5, 5, 5, 80))
simple("reading", 2, "t = float({a}[0])", "t = np.asarray({a})[:2].tolist()", "t = bool({a}[0] > 3)", "t = str({a}[:3])", "t = {a}.tolist()[:3]",
       "t = f'{{{a}[0]:.1f}}'", "t = int(y[0])", "lazynb.sync()", "lazynb.sync({a})", "{a}.block_until_ready()", "t = {a}[:2].sum().item()")

simple("matrices", 1, "{a} = ({a}.reshape(-1, 8) @ jnp.eye(8)).reshape(-1)", "t = float(({a}[:8] @ {c}[:8]))", "{a} = jnp.dot({a}, 1.0) % 16",
       "{a} = jnp.cumsum({a}[:8])[-1] % 16 + {c}", "{a} = jnp.flip({a})", "{a} = jnp.sort({a})")
simple("updates", 1, "{a} = {a}.at[{i}:].add(1) % 16", "{a} = {a}.at[0].set(n % 16)", "{a} = {a}.at[:4].multiply({c}[:4]) % 16", "{a} = {a}[::-1]",
       "{a} = jax.lax.dynamic_update_slice({a}, {c}[:2], (1,))")
simple("trees", 1, "d = {{'a': {a}, 'b': [{c}, {a} + 1]}}", "d = jax.tree.map(step, {{'a': {a}, 'c': {c}}})", "l = l[-2:] + [step({a})]",
       "l = [one % 16 for one in l]", "{a}, {c} = {c}, {a}", "d = None", "l = []")
simple("compiling", 1, "lazynb.compile({a})", "lazynb.compile()", "lazynb.graph({a})", "h = bump({a})", "{a} = bump({a})", "{a} = jax.vmap(step)({a})")
simple("gradients", 1, "{a} = jax.grad(lambda a: (a * a).sum())({a}) % 16", "t = float(jax.grad(lambda a: (a[0] * 3).sum())({a})[0])",
       "{a} = jax.lax.fori_loop(0, {i}, lambda _, a: step(a), {a})", "{a} = jax.lax.scan(lambda c, _: (step(c), None), {a}, None, length=3)[0]",
       "{a} = jax.lax.cond({a}[0] > 3, step, lambda a: a, {a})")

simple("given away", 2, "{a} = give({a})", "{a} = give({a}); t = float({a}[0])", destroys="{a}", repeat=(1, 1, 3))
simple("given away ahead of time", 2, "{a} = ready({a})", "{a} = ready({a} * 1)", destroys="{a}", repeat=(1, 1, 3))
simple("given away and gone", 1, "{q} = give({a})", "{q} = ready({a})", destroys="{a}", fresh=FRESH)
simple("deleted", 2, "{a}.delete()", "{q} = {a} + 1\n{a}.delete()", destroys="{a}", fresh=FRESH)
simple("deleted while needed", 2, "{q} = step({a}); {r} = {a}.delete()".replace("{r}", "t"), "{q} = ({a} + {c}) % 16; in_thread({a}.delete)",
       destroys="{a}", fresh=FRESH)
simple("given away elsewhere", 2, "with lazynb.eager(): {a} = give({a})", "{a} = in_thread(lambda: give({a}))", "{a} = in_thread(lambda: ready({a}))",
       "with lazynb.eager(): {a} = ready({a})", destroys="{a}")
simple("deleted elsewhere", 1, "with lazynb.eager(): {a}.delete()", "in_thread({a}.delete)", destroys="{a}", fresh=FRESH)

@kind(3)
def state_given_to_each_step(scene: Scene) -> Iterator[Statement]:
    """No interrupt loses the state, whose memory each step is given. (Nobody looks at its memory: XLA would leave it.)"""
    q, draw = scene.name("q"), scene.draw
    yield Statement(f"{q} = {scene.array()} * 1")
    for _ in range(draw.randrange(1, 5)):
        yield Statement(draw.choice((f"{q} = hand({q})", f"{q} = hand({q}); t = float({q}[0])", f"{q} = (lambda a: hand(a))({q})",
                                     f"{q} = hand({q} + 0)")), draw.choice((1, 3, 20)), (q,), (q,))


simple("memory of others", 3, "{a} = ({a} + jax.device_put(b)) % 16", "{a} = ({a} + jax.dlpack.from_dlpack(b)) % 16", "l = l[-2:] + [jax.device_put(b).sum()]",
       "{a} = ({a} + jnp.asarray(b)) % 16", "{a} = step(jnp.array(b))", "{a} = step(jnp.from_dlpack(b))", "{a} = ({a} + b) % 16", "{a} = step(jax.device_put({{'a': b}})['a'])",
       "{a} = step(jax.device_put(b, jax.devices()[0]))", "{a} = bump(b)", "{a} = step(jax.device_put(b[:]))", "{a} = jnp.add(b, {c}) % 16", "known_before({a}); {a} = step({a})", "known_before({a}); {c} = ({a} + {c}) % 16")


@kind(weight=3)
def written_later(scene: Scene) -> Iterator[Statement]:
    a, i = scene.array(), scene.draw.randrange(1, 9)
    if scene.draw.random() < 0.4:
        yield Statement(f"b = memory({scene.draw.choice(('ctypes', 'mmap', 'memmap'))!r}, {scene.size})")
    taken = scene.draw.choice(("jax.device_put(b)", "jax.dlpack.from_dlpack(b)", "jnp.asarray(b)", "jnp.from_dlpack(b)", "jax.device_put((b, 1))[0]",
                               "jax.device_put(b[:])"))
    yield Statement(scene.draw.choice((f"{a} = step({taken})", f"l = l[-2:] + [{taken}.sum() % 16]", f"{a} = ({a} + {taken}) % 16")))
    yield Statement(scene.draw.choice((f"b[:] = {i}", f"b += {i}; b %= 16", "b[:] = (b + 1) % 16")))


simple("functions from before", 3, "{a} = held_where({a} > 3, {a}, {c})", "{a} = held_clip({a} * 2, 0, 9)", "{a} = held_flip({a})",
       "{q} = list(map(held_flip, [{a}, {c}]))", "{a} = jax.jit(lambda a: held_where(a > n, a, 0 * a))({a})", "{a} = {a}.at[{i}].set({c}[0])",
       "{a} = {a}.at[{i}:].add(1) % 16", "{a} = {a}[::-1].at[np.array([0, 1])].set({i})", "with lazynb.eager(): {a} = held_flip({a})")
simple("views", 2, "v = np.asarray({a})", "v = [np.asarray({a}), np.asarray({c})]", "v = np.asarray({a})[2:5]", "v = memoryview(np.asarray({a})).tolist()[:4]",
       "v = np.from_dlpack({a})", "v = {a}.__array__()")
simple("numpy", 1, "{a} = jnp.asarray(np.add({a}, 1)) % 16", "t = np.sum(np.asarray({a})[:4])", "t = np.asarray({a}).dtype.name", "t = {a}.dtype.name")
simple("operators", 2, "{q} = operator.add(p, {a})", "{q} = sum([p, {a}])", "{q} = divmod(p, {a} + 1)", "{q} = operator.mul(p, {a})", "{q} = operator.sub(p, {a})",
       "{q} = jax.tree.map(operator.add, {{'a': p}}, {{'a': {a}}})", "{q} = p + {a}", "{q} = p * {a} % 16", "{q} = operator.gt(p, {a})", "{q} = p > {a}",
       "{q} = operator.matmul(p[:8], {a}[:8])", "{q} = np.float32(3) + {a}", "{q} = np.int32(3) * y", "{q} = list(map(operator.add, [p, p], [{a}, {c}]))",
       "{q} = operator.pow(p, {a} * 0 + 1)", "{q} = np.ones(3) + {a}[:3]", "{q} = operator.add(np.arange(3), {a}[:3])", "{q} = operator.iadd(np.arange(3), y[:3])")

simple("eagerly", 2, "with lazynb.eager(): {a} = step({a})", "with lazynb.eager():\n    {a} = ({a} + {c}) % 16\n    t = float({a}[0])",
       "with lazynb.lazy(): {a} = step({a})", "{a} = lazynb.eager()(step)({a})", "{a} = lazynb.lazy()(step)({a})",
       "with lazynb.eager():\n    with lazynb.lazy(): {a} = step({a})")
simple("threads", 2, "t = in_thread(lambda: float({a}[0]))", "{a} = in_thread(lambda: step({a}))", "t = together(*[lambda one=one: float(one[1]) for one in ({a}, {c}, z)])",
       "t = in_thread(recording)", "{a} = in_thread(lambda: ({a} + {c}) % 16)", "l = together(lambda: step({a}), lambda: step({c}))",
       "def inner():\n    with lazynb.lazy(): return step({a})\n{a} = in_thread(inner)")
simple("evictions", 1, "lazynb.clear_cache()", "lazynb.config.max_executables = {i}", "jax.clear_caches()", "lazynb.config.max_recorded = 50",
       "import gc; gc.collect()", "lazynb.config.max_pending = {i}", "lazynb.config.max_program = {i}", "lazynb.config.min_donated = 1")


@kind(weight=1)
def settings(scene: Scene) -> Iterator[Statement]:
    name, on, off = scene.draw.choice((("jax_debug_nans", True, False), ("jax_debug_infs", True, False), ("jax_default_matmul_precision", "float32", None),
                                       ("jax_numpy_rank_promotion", "raise", "allow"), ("jax_numpy_dtype_promotion", "strict", "standard")))
    a = scene.array()
    yield Statement(f"jax.config.update({name!r}, {on!r})")
    if scene.draw.random() < 0.5:
        yield Statement(f"{a} = step({a})")
        yield Statement(f"jax.config.update({name!r}, {off!r})")


simple("settings for a while", 1, "with jax.debug_nans(True): {a} = step({a})", "with jax.default_matmul_precision('float32'): t = float({a}[:8] @ {c}[:8])",
       "with jax.debug_infs(True): t = float({a}[0])", "with jax.numpy_dtype_promotion('strict'): {a} = {a} + {c} * 0", calm=True)


@kind(weight=2)
def not_numbers(scene: Scene) -> Iterator[Statement]:
    a, c, q, draw = scene.array(), scene.array(), scene.name("q"), scene.draw
    on = Statement("jax.config.update('jax_debug_nans', True)")
    first = draw.random() < 0.5  # else the search for NaN begins while one is pending
    if first:
        yield on
    yield Statement(f"{a} = ({a} * 2) % 16")
    bad = draw.choice(("jnp.log({c} - 99)", "jnp.sqrt({c} - 99)", "jnp.zeros({size}) / ({c} * 0)", "jnp.arccos({c} + 2)"))
    yield Statement(f"{q} = {bad.format(c=c, size=scene.size)}", deferred=True)
    if draw.random() < 0.5:
        yield Statement(draw.choice((f"{a} = step({a})", f"t = float({a}[0])", "lazynb.config.min_donated = 1")))
    if not first:
        yield draw.choice((on, Statement(f"with jax.debug_nans(True): t = float({a}[0])", calm=True)))
    if draw.random() < 0.5:
        yield Statement(f"t = float({a}[0])")
        yield Statement("jax.config.update('jax_debug_nans', False)")


simple("out of memory", 2, "{q} = jnp.zeros(1 << 40) + {a}[0]", "{q} = jnp.zeros(1 << 40); {q} = {q}.at[0].set({a}[0])",
       "{a} = ({a} * 2) % 16; {q} = jnp.zeros(1 << 40) + {a}[0]", deferred=True)
simple("far out of memory", 0.25, "h = jnp.zeros((1 << 20, 1 << 20)) + {a}[0]; t = float(h[0, 0])", deferred=True)
simple("failing host", 1, "{q} = float(jax.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), {a}[0]))",
       "{a} = ({a} * 2) % 16; {q} = np.asarray(jax.pure_callback(fail, jax.ShapeDtypeStruct((), jnp.float32), {a}[0]))")
simple("wrong", 1, "{a} + jnp.ones({size} + 3)", "{a}.reshape(3, -1, 7, 11)", "bool({a})", "{a}[0] = 1", "jnp.sum({a}, axis=4)", "[1, 2][{a}[0]]", "hash({a})",
       "{a} = step({a}) + undefined", "jnp.bitwise_and({a}, {a})", "{a}.no_such_name")

simple("left in another order", 1, "backwards(lazynb.eager, lazynb.eager)", "backwards(lazynb.lazy, lazynb.eager)", "backwards(lazynb.eager, lazynb.lazy)", "backwards(lazynb.eager, lazynb.lazy, lazynb.eager)")
simple("held over", 1, "{q} = holder(lazynb.eager); next({q})", closing="{q}.close()", styles=("cells", "shell"))
simple("held over, lazy", 1, "{q} = holder(lazynb.lazy); next({q})", closing="{q}.close()", styles=("shell",))  # a body outlives a body, no cell
simple("left in a thread", 0.5, "{q} = holder(lazynb.eager); next({q}); t = in_thread(lambda: (next({q}, None), recording()))", elsewhere=True)
simple("left to the collector", 0.5, "{q} = holder(lazynb.eager); next({q}); {q} = None", calm=True)


@kind(weight=2, styles=("shell",))
def tasks(scene: Scene) -> Iterator[Statement]:
    q, a = scene.name("q"), scene.array()
    yield Statement(f"{q} = asyncio.Event(); {q}task = asyncio.ensure_future(hold({q}, lazynb.eager)); await asyncio.sleep(0)")
    if scene.draw.random() < 0.5:
        yield Statement(f"{a} = step({a})")
    yield Statement(scene.draw.choice((f"{q}.set()", f"{q}.set(); await {q}task")))
