"""Moves and merges modules of lazynb as plans say, and rewrites all who name them.

    python scripts/rooms/move.py REPOSITORY scripts/rooms/*.json [--dry]

REPOSITORY is a clone, for what goes wrong is thrown away with it. A plan has ``moves`` (old module: new module, several
old ones may go to one), ``renames`` (old name with its module: new name; only names at the top of modules are taken),
``names`` and ``imports`` (the same for names that clash in a merged module) and ``remove`` (for people). Printed are
names that clash. Run it with Python 3.12 or later: before, ``ast`` has no places within f-strings.
"""
# ruff: noqa

import ast, json, re, subprocess, sys, symtable, collections
from pathlib import Path

REPO = Path(sys.argv[1])
PLAN = {"moves": {}, "first": {}, "names": {}, "imports": {}, "renames": {}}
for a in sys.argv[2:]:
    if a.endswith(".json"):
        one = json.load(open(a))
        for k in PLAN:
            PLAN[k].update(one.get(k, {}))
DRY = "--dry" in sys.argv
PKG = REPO / "lazynb"
MOVES = PLAN["moves"]
FIRST = PLAN.get("first", {})
NAMES = PLAN.get("names", {})
IMPORTS = PLAN["imports"]
dotted = lambda rel: ("lazynb." + rel.replace("/", ".")).removesuffix(".__init__")
MODS = {str(p.relative_to(PKG))[:-3]: p for p in PKG.rglob("*.py")}
BYDOT = {("lazynb" if m == "__init__" else dotted(m)): m for m in MODS}
new_rel = lambda m: MOVES.get(m, m)
problems = []


def offsets(src):
    out = [0]
    for line in src.encode().splitlines(keepends=True):
        out.append(out[-1] + len(line))
    return out


class File:
    def __init__(self, path, rel=None):
        self.path, self.rel = path, rel
        self.src = path.read_text()
        self.raw = self.src.encode()
        self.tree = ast.parse(self.src)
        self.off = offsets(self.src)
        self.edits = []
        self.top = top_names(self.tree)

    def pos(self, line, col):
        return self.off[line - 1] + col

    def span(self, n):
        return self.pos(n.lineno, n.col_offset), self.pos(n.end_lineno, n.end_col_offset)

    def edit(self, start, end, text):
        self.edits.append((start, end, text))

    def result(self, start=0, end=None):
        end = len(self.raw) if end is None else end
        out, at = [], start
        for s, e, t in sorted(set(self.edits)):
            if s < start or e > end:
                continue
            assert s >= at, (self.path, self.raw[s:e], t)
            out += [self.raw[at:s], t.encode()]
            at = e
        return (b"".join(out) + self.raw[at:end]).decode()


def top_names(tree):
    names = {}

    def bind(body):
        for n in body:
            if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                names[n.name] = n
            elif isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                ts = n.targets if isinstance(n, ast.Assign) else [n.target]
                for t in ts:
                    for x in ast.walk(t):
                        if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store):
                            names[x.id] = n
            elif isinstance(n, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
                if isinstance(n, ast.For):
                    for x in ast.walk(n.target):
                        if isinstance(x, ast.Name):
                            names[x.id] = n
                if isinstance(n, ast.With):
                    for i in n.items:
                        if i.optional_vars is not None:
                            for x in ast.walk(i.optional_vars):
                                if isinstance(x, ast.Name):
                                    names[x.id] = n
                if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test):
                    continue
                bind(n.body)
                bind(getattr(n, "orelse", []))
                bind(getattr(n, "finalbody", []))
                for h in getattr(n, "handlers", []):
                    bind(h.body)

    bind(tree.body)
    # `global x` within functions
    for n in ast.walk(tree):
        if isinstance(n, ast.Global):
            for x in n.names:
                names.setdefault(x, n)
    return names


class Uses(ast.NodeVisitor):
    """Finds the loads of module-level names: calls back (node) for Name nodes that are not bound in a function around."""

    def __init__(self, wanted, hit):
        self.wanted, self.hit, self.stack = wanted, hit, []

    def bound(self, fn):
        names, globs = set(), set()
        a = fn.args
        for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]:
            if x is not None:
                names.add(x.arg)
        body = fn.body if isinstance(fn.body, list) else [fn.body]

        def walk(n):
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(n.name)
                return
            if isinstance(n, ast.Lambda):
                return
            if isinstance(n, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                for x in ast.walk(n):
                    if isinstance(x, ast.NamedExpr):
                        names.add(x.target.id)
                return
            if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
                names.add(n.id)
            if isinstance(n, (ast.Import, ast.ImportFrom)):
                for al in n.names:
                    names.add(al.asname or al.name.split(".")[0])
            if isinstance(n, ast.ExceptHandler) and n.name:
                names.add(n.name)
            if isinstance(n, ast.Global):
                globs.update(n.names)
            if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name:
                names.add(n.name)
            for c in ast.iter_child_nodes(n):
                walk(c)

        for b in body:
            walk(b)
        return names - globs

    def visit_FunctionDef(self, n):
        for d in n.decorator_list:
            self.visit(d)
        for d in [*n.args.defaults, *[k for k in n.args.kw_defaults if k]]:
            self.visit(d)
        for x in [*n.args.posonlyargs, *n.args.args, *n.args.kwonlyargs, n.args.vararg, n.args.kwarg]:
            if x is not None and x.annotation:
                self.visit(x.annotation)
        if n.returns:
            self.visit(n.returns)
        self.stack.append(self.bound(n))
        for b in n.body:
            self.visit(b)
        self.stack.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, n):
        for d in [*n.args.defaults, *[k for k in n.args.kw_defaults if k]]:
            self.visit(d)
        self.stack.append(self.bound(n))
        self.visit(n.body)
        self.stack.pop()

    def comp(self, n):
        names = {x.id for g in n.generators for x in ast.walk(g.target) if isinstance(x, ast.Name)}
        self.visit(n.generators[0].iter)
        self.stack.append(names)
        for i, g in enumerate(n.generators):
            if i:
                self.visit(g.iter)
            for c in g.ifs:
                self.visit(c)
        for f in ("elt", "key", "value"):
            if hasattr(n, f):
                self.visit(getattr(n, f))
        self.stack.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comp

    def visit_Name(self, n):
        if n.id in self.wanted and not any(n.id in s for s in self.stack):
            self.hit(n)


def is_tc(n):
    return isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)


files = {m: File(p, m) for m, p in MODS.items()}
others = [
    File(p)
    for top in ("tests", "benchmarks", "scripts", "docs", "extension", ".")
    for p in (REPO.glob("*.py") if top == "." else (REPO / top).rglob("*.py"))
    if not any(x in p.parts for x in (".venvs", "build", "node_modules", "__pycache__"))
]
for old, to in PLAN["renames"].items():  # those of names at the top of a module; methods are left
    parts = old.removeprefix("lazynb.").replace("/", ".").split(".")
    m = BYDOT.get("lazynb." + ".".join(parts[:-1]))
    if m is not None and parts[-1] in files[m].top:
        NAMES.setdefault(f"{m}:{parts[-1]}", to)
groups = collections.defaultdict(list)
for m in MODS:
    if not m.endswith("__init__") or m in MOVES:
        groups[new_rel(m)].append(m)


def inner_order(parts):
    dep = {m: set() for m in parts}
    for m in parts:
        for n in files[m].tree.body:
            if isinstance(n, ast.ImportFrom) and n.module:
                for a in n.names:
                    full = f"{n.module}.{a.name}"
                    t = BYDOT.get(full) or BYDOT.get(n.module)
                    if t in dep and t != m:
                        dep[m].add(t)
    import graphlib

    ts = graphlib.TopologicalSorter(dep)
    ts.prepare()
    out = []
    rank = {m: i for i, m in enumerate(parts)}
    while ts.is_active():
        for m in sorted(ts.get_ready(), key=rank.get):
            out.append(m)
            ts.done(m)
    return out


# ---- names that clash inside a group -----------------------------------------------------------------------
rename = collections.defaultdict(dict)  # module -> {name: new name}
for key, to in NAMES.items():
    m, name = key.split(":")
    rename[m][name] = to


def reexports(m):
    for n in ast.walk(files[m].tree):
        if isinstance(n, ast.ImportFrom) and n.module in BYDOT:
            for a in n.names:
                if a.asname == a.name:
                    yield BYDOT[n.module], a.name


changed = True
while changed:
    changed = False
    for m in MODS:
        for src, name in reexports(m):
            to = rename[src].get(name)
            if to and rename[m].get(name) != to:
                rename[m][name] = to
                changed = True


def import_bindings(f):
    """name -> description, of imports at the top (TYPE_CHECKING too)."""
    out = {}

    def walk(body):
        for n in body:
            if isinstance(n, ast.Import):
                for a in n.names:
                    out[a.asname or a.name.split(".")[0]] = (
                        "import",
                        a.name if a.asname else a.name.split(".")[0],
                        None,
                    )
            elif isinstance(n, ast.ImportFrom):
                for a in n.names:
                    out[a.asname or a.name] = ("from", n.module, a.name)
            elif isinstance(n, (ast.If, ast.Try)):
                walk(n.body)
                walk(n.orelse)
                for h in getattr(n, "handlers", []):
                    walk(h.body)

    walk(f.tree.body)
    return out


def target(kind):
    """What an import means after the moves: (module rel or None, name)"""
    k, mod, name = kind
    if k == "from" and mod and mod.startswith("lazynb"):
        full = f"{mod}.{name}"
        if full in BYDOT:
            return ("module", BYDOT[full])
        if mod in BYDOT:
            m = BYDOT[mod]
            for _ in range(5):
                nxt = next(
                    (
                        BYDOT[n.module]
                        for n in ast.walk(files[m].tree)
                        if isinstance(n, ast.ImportFrom) and n.module in BYDOT
                        for a in n.names
                        if a.asname == a.name == name
                    ),
                    None,
                )
                if nxt is None:
                    break
                m = nxt
            return ("name", m, name)
    return None


DROP = set()
newname0 = lambda m, name: rename[m].get(name, name)
for g, parts in groups.items():
    if len(parts) < 2:
        continue
    seen = {}
    order = sorted(parts, key=lambda m: (m != FIRST.get(g), Path(m).name != Path(g).name, -len(files[m].src)))
    for m in order:
        stem = Path(m).name.strip("_")
        for name in files[m].top:
            to = rename[m].get(name, name)
            if to in seen and seen[to] != m:
                one, other = (
                    files[m].top[name],
                    next((n for k, n in files[seen[to]].top.items() if newname0(seen[to], k) == to), None),
                )
                if (
                    isinstance(one, ast.Assign)
                    and len(one.targets) == 1
                    and other is not None
                    and ast.dump(one.value) == ast.dump(getattr(other, "value", one))
                    and isinstance(other, ast.Assign)
                ):
                    at = inner_order(sorted(parts)).index
                    if at(m) < at(seen[to]):
                        DROP.add(
                            (
                                seen[to],
                                next(
                                    k for k, n in files[seen[to]].top.items() if newname0(seen[to], k) == to
                                ),
                            )
                        )
                        seen[to] = m
                    else:
                        DROP.add((m, name))
                    continue
                fresh = f"_{stem}_{name.strip('_')}" if name.startswith("_") else f"{stem}_{name}"
                problems.append(f"{g}: {name} of {m} clashes with {seen[to]}: now {fresh}")
                rename[m][name] = fresh
                to = fresh
            seen[to] = m
    # imports of one part that clash with the names of another, or with each other
    imps = {}
    for m in order:
        for local, kind in import_bindings(files[m]).items():
            t = target(kind)
            if t and t[0] == "module" and new_rel(t[1]) == g:
                continue
            if t and t[0] == "name" and new_rel(t[1]) == g:
                continue
            meaning = t or kind
            if local in seen and (m, local) not in DROP and (IMPORTS.get(f"{m}:{local}", local) in seen):
                problems.append(f"{g}: {m} imports {local} ({kind}), and {seen[local]} defines it")
            if f"{m}:{local}" in IMPORTS:
                continue
            if local in imps and imps[local][0] != meaning:
                problems.append(
                    f"{g}: {local} is imported as {kind} by {m} and {imps[local][1]} by {imps[local][2]}"
                )
            imps.setdefault(local, (meaning, kind, m))

BINDINGS = {m: import_bindings(f) for m, f in files.items()}


def definer(m, name):
    for _ in range(6):
        if m.endswith("__init__") or name in files[m].top:
            return m, name
        k = BINDINGS[m].get(name)
        if not k or k[0] != "from" or k[1] not in BYDOT or f"{k[1]}.{k[2]}" in BYDOT:
            return m, name
        m, name = BYDOT[k[1]], k[2]
    return m, name


def newname(m, name):
    if name in rename[m] or name in files[m].top:
        return rename[m].get(name, name)
    k = BINDINGS[m].get(name)
    if k and k[0] == "from" and k[1] in BYDOT and k[2] == name and not m.endswith("__init__"):
        d, n = definer(m, name)
        return rename[d].get(n, n)
    return name


EXTRA = {
    "lazynb.recording._fast": "lazynb.recording._fast",
    "lazynb.frontends.torch._short": "lazynb.frontends.torch._short",
}
DATA = {
    "record/_fast.c": "recording/_fast.c",
    "torch/_short.c": "frontends/torch/_short.c",
    "targets/chips.toml": "xla/targets/chips.toml",
    **{
        f"view/templates/{p.name}": f"report/templates/{p.name}"
        for p in (PKG / "view" / "templates").glob("*")
    },
}
OLD = {m.removesuffix("/__init__").replace("/", "."): m for m in MODS}


def dots(match):
    for a, b in EXTRA.items():
        if match[0] == a:
            return b
    if match[0] == "lazynb.report":
        return "lazynb.report"
    parts = match[0].split(".")[1:]
    for k in range(len(parts), 0, -1):
        m = OLD.get(".".join(parts[:k]))
        if m is not None:
            rest = parts[k:]
            if rest == ["py"]:
                return match[0]
            if rest:
                rest[0] = newname(m, rest[0])
            return ".".join([dotted(new_rel(m)), *rest])
    return match[0]


def convert(n):
    n = re.sub(r"\blazynb(?:\.\w+)+", dots, n)
    for a, b in DATA.items():
        n = n.replace(f"lazynb/{a}", f"lazynb/{b}")
    n = re.sub(r"\blazynb/([\w/]+)\.py\b", slashes, n)
    return re.sub(
        r"(?<![\w/.])((?:\w+/)+\w+)\.py\b", lambda x: f"{new_rel(x[1])}.py" if x[1] in MODS else x[0], n
    )


def slashes(match):
    m = match[1]
    return f"lazynb/{new_rel(m)}.py" if m in MODS else match[0]


# ---- rewriting one file's references ------------------------------------------------------------------------
def rewrite(f, own):
    import io, tokenize

    for tok in tokenize.tokenize(io.BytesIO(f.raw).readline):
        if tok.type in (tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)) and (
            "lazynb" in tok.string or ".py" in tok.string
        ):
            lines = f.src.splitlines(keepends=True)

            def at(pos):
                return f.off[pos[0] - 1] + len(lines[pos[0] - 1][: pos[1]].encode())

            s0, e0 = at(tok.start), at(tok.end)
            old = f.raw[s0:e0].decode()
            to = convert(old)
            if to != old:
                f.edit(s0, e0, to)
    if f.rel:
        for n in f.tree.body:
            if isinstance(n, ast.Assign) and len(n.targets) == 1 and isinstance(n.targets[0], ast.Name):
                if (f.rel, n.targets[0].id) in DROP:
                    s, e = f.span(n)
                    f.edit(s, e, "")
                if n.targets[0].id == "__all__":
                    for c in ast.walk(n.value):
                        if isinstance(c, ast.Constant) and c.value in rename[f.rel]:
                            f.edit(*f.span(c), json.dumps(rename[f.rel][c.value]))
    """Edits of imports and uses in f. own: the group that f belongs to (None outside the package)."""
    module_alias = {}  # local name -> old module rel
    name_alias = {}  # local name -> (old rel, name)
    for n in ast.walk(f.tree):
        if isinstance(n, ast.ImportFrom) and n.module and n.module.startswith("lazynb") and n.level == 0:
            keep = []
            changed = False
            for a in n.names:
                full = f"{n.module}.{a.name}"
                local = a.asname or a.name
                if full in BYDOT and not (n.module in BYDOT and a.name in files[BYDOT[n.module]].top):
                    m = BYDOT[full]
                    t = new_rel(m)
                    if t == own and f.rel:
                        module_alias[local] = (m, "", n)
                        changed = True
                        continue
                    pkg, _, base = dotted(t).rpartition(".")
                    if t == m and len(groups.get(t, ())) <= 1:
                        keep.append((n.module, a.name, a.asname))
                    else:
                        changed = True
                        if m.endswith("__init__") and t == m:
                            keep.append((n.module, a.name, a.asname))
                            continue
                        asname = a.asname
                        use = asname or base
                        if asname is None and base != a.name:
                            taken = set(f.top) | set(import_bindings(f))
                            if base in taken or binds_anywhere(f, base):
                                asname = a.name
                                use = a.name
                        keep.append((pkg, base, asname if asname != base else None))
                        module_alias[local] = (m, use, n)
                    if t == m:
                        module_alias.setdefault(local, (m, local, n))
                elif n.module in BYDOT:
                    m, dn = definer(BYDOT[n.module], a.name)
                    t = new_rel(m)
                    nn = newname(m, dn)
                    if m != BYDOT[n.module]:
                        changed = True
                    if t == own and f.rel:
                        changed = True
                        if local != nn:
                            name_alias[local] = nn
                        continue
                    if t != m or nn != a.name:
                        changed = True
                        if a.asname is None and nn != a.name:
                            name_alias[a.name] = nn
                    asname = nn if a.asname == a.name else a.asname
                    if a.asname == a.name and nn != a.name:
                        name_alias[a.name] = nn
                    alias = IMPORTS.get(f"{f.rel}:{local}")
                    if alias:
                        asname = alias
                        name_alias[local] = alias
                        changed = True
                    keep.append((dotted(t).removesuffix(".__init__"), nn, asname))
                else:
                    keep.append((n.module, a.name, a.asname))
            if changed:
                lines = []
                indent = " " * n.col_offset
                for mod in dict.fromkeys(k[0] for k in keep):
                    ns = ", ".join(nm + (f" as {al}" if al else "") for mo, nm, al in keep if mo == mod)
                    lines.append(f"from {mod} import {ns}" if len(ns) < 70 else f"from {mod} import ({ns})")
                s, e = f.span(n)
                f.edit(s, e, ("\n" + indent).join(lines) if lines else "pass  # IMPORT-GONE")
        elif isinstance(n, ast.Import):
            for a in n.names:
                if a.name in BYDOT and a.name != "lazynb":
                    m = BYDOT[a.name]
                    t = new_rel(m)
                    if t != m:
                        if a.asname:
                            module_alias[a.asname] = (m, a.asname, n)
                        s, e = f.span(n)
                        f.edit(s, e, f.raw[s:e].decode().replace(a.name, dotted(t)))
    parents = {c: p for p in ast.walk(f.tree) for c in ast.iter_child_nodes(p)}
    for local, nn in [*name_alias.items(), *((rename[f.rel] if f.rel else {}).items())]:
        if binds_in_function(f, nn):
            problems.append(f"SHADOW {f.path}: {local} becomes {nn}, which a function binds")
        if nn in f.top and nn not in (rename[f.rel] if f.rel else {}):
            problems.append(f"TAKEN {f.path}: {local} becomes {nn}, which is defined there")
        elif nn in import_bindings(f) and nn != local and nn not in name_alias:
            problems.append(f"TAKEN {f.path}: {local} becomes {nn}, which is imported there")
    for n in ast.walk(f.tree):
        if (
            isinstance(n, ast.Call)
            and len(n.args) >= 2
            and isinstance(n.args[1], ast.Constant)
            and isinstance(n.args[1].value, str)
        ):
            how = n.func.attr if isinstance(n.func, ast.Attribute) else getattr(n.func, "id", "")
            a = n.args[0]
            if (
                how in {"setattr", "getattr", "delattr", "object", "hasattr"}
                and isinstance(a, ast.Name)
                and a.id in module_alias
            ):
                to = newname(module_alias[a.id][0], n.args[1].value)
                if to != n.args[1].value:
                    f.edit(*f.span(n.args[1]), json.dumps(to))

    def hit(n):
        p = parents[n]
        if n.id in name_alias and not (isinstance(n.ctx, ast.Store)):
            f.edit(*f.span(n), name_alias[n.id])
            return
        if n.id in module_alias and isinstance(n.ctx, ast.Store):
            return
        if n.id in module_alias:
            m, use, _ = module_alias[n.id]
            if isinstance(p, ast.Attribute):
                attr = newname(m, p.attr)
                s = f.span(n)[0]
                e = f.span(p)[1]
                text = f"{use}.{attr}" if use else attr
                if f.raw[s:e].decode() != text:
                    f.edit(s, e, text)
            elif use != n.id:
                if use:
                    f.edit(*f.span(n), use)
                else:
                    problems.append(
                        f"{f.path}:{n.lineno}: module {n.id} is used as a value, and is now the same module"
                    )
            return
        if f.rel and n.id in rename[f.rel]:
            q = n
            while q in parents and not isinstance(q, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                q = parents[q]
            if isinstance(n.ctx, ast.Store) and isinstance(q, ast.ClassDef):
                return
            if (f.rel, n.id) in DROP and isinstance(n.ctx, ast.Store):
                return
            f.edit(*f.span(n), rename[f.rel][n.id])

    # imports within functions shadow: treat their alias as visible everywhere in that file
    wanted = set(module_alias) | set(name_alias) | (set(rename[f.rel]) if f.rel else set())
    inner = {
        l
        for l in wanted
        if any(
            isinstance(n, (ast.Import, ast.ImportFrom))
            and n not in f.tree.body
            and any((a.asname or a.name) == l for a in n.names)
            for n in ast.walk(f.tree)
        )
    }
    u = Uses(wanted, hit)
    old = u.bound

    def imported_in(fn):
        body = fn.body if isinstance(fn.body, list) else []
        return {
            a.asname or a.name
            for b in body
            for n in ast.walk(b)
            if isinstance(n, (ast.Import, ast.ImportFrom))
            for a in n.names
        }

    u.bound = lambda fn: old(fn) - (inner & imported_in(fn) - argnames(fn))
    u.visit(f.tree)
    if f.rel:
        for n in ast.walk(f.tree):
            if (
                isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))
                and n in f.tree.body
                and n.name in rename[f.rel]
            ):
                head = f.raw[f.pos(n.lineno, n.col_offset) :]
                k = re.match(rb"(async\s+def|def|class)\s+", head).end()
                s = f.pos(n.lineno, n.col_offset) + k
                f.edit(s, s + len(n.name.encode()), rename[f.rel][n.name])
            if isinstance(n, ast.Global):
                s, e = f.span(n)
                text = re.sub(
                    r"\w+",
                    lambda x: rename[f.rel].get(x[0], x[0]) if x[0] != "global" else x[0],
                    f.raw[s:e].decode(),
                )
                if text != f.raw[s:e].decode():
                    f.edit(s, e, text)


def argnames(fn):
    a = fn.args
    return {x.arg for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg] if x is not None}


def binds_in_function(f, name):
    for fn in ast.walk(f.tree):
        if isinstance(fn, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            if name in argnames(fn):
                return True
            for n in ast.walk(fn):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name:
                    return True
                if isinstance(n, (ast.Import, ast.ImportFrom)) and any(
                    (a.asname or a.name) == name for a in n.names
                ):
                    return True
    return False


def binds_anywhere(f, name):
    for n in ast.walk(f.tree):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name:
            return True
        if isinstance(n, ast.arg) and n.arg == name:
            return True
        if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name:
            return True
    return False


for m, f in files.items():
    rewrite(f, new_rel(m))
for f in others:
    rewrite(f, None)


# ---- writing ------------------------------------------------------------------------------------------------
def split(f):
    """docstring node, imports text (after edits), body text (after edits)"""
    body = f.tree.body
    i = 0
    doc = None
    if (
        body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        doc = body[0].value.value
        i = 1
    imports = []
    rest_start = None
    while i < len(body) and (isinstance(body[i], (ast.Import, ast.ImportFrom)) or is_tc(body[i])):
        n = body[i]
        if not (isinstance(n, ast.ImportFrom) and n.module == "__future__"):
            s, e = f.span(n)
            text = f.result(s, e)
            if text.strip() != "pass  # IMPORT-GONE":
                if is_tc(n):
                    text = text
                imports.append(text)
        i += 1
    if i < len(body):
        n = body[i]
        line = min([n.lineno] + [d.lineno for d in getattr(n, "decorator_list", [])])
        prev_end = body[i - 1].end_lineno if i else 0
        # keep comments right before the first statement
        s = f.off[prev_end]
        rest = f.result(s).lstrip("\n")
        # a comment behind the last import stays there
    else:
        rest = ""
    return doc, imports, rest


if DRY:
    print(*problems, sep="\n")
    sys.exit()
written = {}
for g, parts in groups.items():
    if len(parts) == 1:
        m = parts[0]
        if g != m or files[m].edits:
            written[g] = files[m].result()
        continue
    order = inner_order(sorted(parts))
    lead = (
        FIRST.get(g)
        or next((m for m in order if Path(m).name == Path(g).name), None)
        or max(order, key=lambda m: len(files[m].src))
    )
    docs, imports, bodies = {}, [], []
    for m in order:
        doc, imp, rest = split(files[m])
        docs[m] = doc
        imports += imp
        if rest.strip():
            title = (doc or Path(m).name).strip().split("\n")[0].rstrip(".")
            more = "\n".join((doc or "").strip().split("\n")[1:]).strip()
            head = f"# ---- {title} "
            head = (head + "-" * max(4, 109 - len(head)))[:110] if len(head) < 106 else f"# ---- {title}"
            if m == lead:
                head = None
            text = rest.strip("\n")
            if head:
                text = (
                    head
                    + "\n"
                    + (
                        "".join(f"# {l}".rstrip() + "\n" for l in ["", *more.split("\n")] if more or l)[2:]
                        if more
                        else ""
                    )
                    + "\n"
                    + text
                )
            bodies.append(text)
    imports = list(dict.fromkeys(imports))
    plain = [i for i in imports if not i.startswith("if ")]
    tc = [i for i in imports if i.startswith("if ")]
    doc = docs[lead] or ""
    quote = 'r"""' if "\\" in doc else '"""'
    written[g] = (
        f'{quote}{doc}"""\n\nfrom __future__ import annotations\n\n'
        + "\n".join(plain)
        + "\n"
        + "\n".join(tc)
        + "\n\n"
        + "\n\n\n".join(bodies)
        + "\n"
    )
for m in MODS:
    if m.endswith("__init__") and m not in MOVES and files[m].edits:
        written[m] = files[m].result()
for m in MODS:
    if new_rel(m) != m and m not in written:
        to = PKG / (new_rel(m) + ".py")
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            subprocess.run(
                ["git", "-C", str(REPO), "mv", str(MODS[m].relative_to(REPO)), str(to.relative_to(REPO))],
                check=True,
            )
        else:
            subprocess.run(["git", "-C", str(REPO), "rm", "-qf", str(MODS[m].relative_to(REPO))], check=True)
for g, text in written.items():
    p = PKG / (g + ".py")
    p.parent.mkdir(parents=True, exist_ok=True)
    p.write_text(text)
for f in others:
    if f.edits:
        f.path.write_text(f.result())
# packages that have no __init__ yet
for g in written:
    d = (PKG / g).parent
    while d != PKG.parent:
        if not (d / "__init__.py").exists():
            (d / "__init__.py").write_text("")
        d = d.parent
for d in sorted(
    (p for p in PKG.rglob("*") if p.is_dir() and p.name != "__pycache__"), key=lambda p: -len(p.parts)
):
    rest = [p for p in d.iterdir() if p.name != "__pycache__"]
    if [p.name for p in rest] == ["__init__.py"]:
        subprocess.run(["git", "-C", str(REPO), "rm", "-qf", str(rest[0].relative_to(REPO))], check=True)
# ---- texts: dotted names and paths --------------------------------------------------------------------------
for a, b in DATA.items():
    (PKG / b).parent.mkdir(parents=True, exist_ok=True)
    if (PKG / a).exists():
        subprocess.run(["git", "-C", str(REPO), "mv", f"lazynb/{a}", f"lazynb/{b}"], check=True)
PYFILES = (
    {f.path for f in others}
    | {PKG / (g + ".py") for g in written}
    | {PKG / (new_rel(m) + ".py") for m in MODS}
)
tracked = subprocess.run(
    ["git", "-C", str(REPO), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True
).stdout.split("\n")
for name in tracked:
    p = REPO / name
    if (
        p in PYFILES
        or p.suffix
        not in {
            ".py",
            ".md",
            ".toml",
            ".json",
            ".c",
            ".h",
            ".yml",
            ".cfg",
            ".ipynb",
            ".ts",
            ".txt",
            ".in",
            "",
        }
        or not p.is_file()
    ):
        continue
    try:
        t = p.read_text()
    except UnicodeDecodeError:
        continue
    if "lazynb" not in t:
        continue
    n = convert(t)
    if n != t:
        p.write_text(n)
print(*problems, sep="\n")
print(len(groups), "modules")
