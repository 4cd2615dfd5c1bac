"""Small changes of a program, one at a time: what `mutants` runs the tests against. Pure.

Each change is a splice of the source's bytes, so lines and everything else stay where they are.
Left alone is what no behaviour depends on: annotations, docstrings, messages, logging, `__all__`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutation", "mutations"]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change: the bytes from `start` to `end` become `after`."""

    kind: str
    function: str  # dotted, empty at module level
    function_line: int  # where its code begins, decorators included; 0 for what runs at import
    line: int
    lines: tuple[int, int]  # first and last of its statement, of the head of a compound one
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    @property
    def name(self) -> str:
        """A name that survives edits elsewhere: no line numbers."""
        return f"{self.function or 'module'}: {_short(self.before)} -> {_short(self.after)}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 90 else f"{words[:60]} ... {words[-25:]}"


_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)
_SPOKEN = ("_LOG", "_log", "warnings")


def mutations(source: bytes) -> list[Mutation]:
    """Every change of a module, in the order of its text."""
    walker = _Walker(source)
    walker.visit(ast.parse(source))
    return sorted(walker.found, key=lambda found: (found.start, found.kind, found.after))


class _Walker(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._function: tuple[str, int] = ("", 0)
        self._lines = (0, 0)

    # Where we are

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
            self._lines = (node.lineno, max(last, node.lineno))
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            first = node.lineno if isinstance(node, ast.ExceptHandler) else node.pattern.lineno
            self._lines = (first, max(node.body[0].lineno - 1, first))
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._within(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._within(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer = self._function
        self._function = (f"{outer[0]}.{node.name}".lstrip("."), outer[1])
        for statement in node.body:
            self.visit(statement)
        self._function = outer

    def _within(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self._function
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        # A function inside another runs when that one does: the outermost one is what was called.
        line = outer[1] or first
        name = f"{outer[0]}.{node.name}".lstrip(".")
        self._function = (name, outer[1])  # defaults are worked out where the function is made
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._function = (name, line)
        for statement in node.body:
            self.visit(statement)
        self._function = outer

    # What is left alone

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and not _is_name(node.annotation, "TypeAlias"):
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if "__all__" in names:
            return
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self._splice("statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """The words of an error are not what behaviour depends on."""

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text for people."""

    # What is changed

    def visit_If(self, node: ast.If) -> None:
        if _is_name(node.test, "TYPE_CHECKING"):
            return
        self._turn(node.test)
        if isinstance(node.body[-1], _LEAVES) and not node.orelse:
            self._splice("guard removed", node.test, "False")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.generic_visit(node)  # a turned loop runs for ever or never: little is learned

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if _is_prose(node.body) or _is_prose(node.orelse):
            return
        self._turn(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._turn(condition)
            self._splice("filter removed", condition, "True")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            other = _COMPARED[type(node.ops[0])]()
            changed = ast.Compare(left=node.left, ops=[other], comparators=node.comparators)
            self._replace("comparison shifted", node, changed)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._replace("and/or swapped", node, ast.BoolOp(op=other, values=node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("not removed", node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = _CALCULATED.get(type(node.op))
        if other is not None and not _is_text(node.left) and not _is_text(node.right):
            changed = ast.BinOp(left=node.left, op=other(), right=node.right)
            self._replace("operator changed", node, changed)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._splice("constant changed", node, str(not value))
        elif isinstance(value, int):
            self._splice("constant changed", node, str(value + 1))
        elif isinstance(value, float):
            self._splice("constant changed", node, repr(value * 2 + 1))

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Constant) or _is_spoken(value):
            return
        if isinstance(value, ast.Call):
            self._splice("statement dropped", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _is_text(node.value):
            self._splice("statement dropped", node, "pass")
        self.generic_visit(node)

    # How it is written

    def _turn(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
            self._replace("condition turned", test, ast.UnaryOp(op=ast.Not(), operand=test))

    def _replace(self, kind: str, node: ast.expr, changed: ast.expr) -> None:
        self._splice(kind, node, f"({ast.unparse(changed)})")

    def _splice(self, kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        before = self._source[start:end].decode()
        self.found.append(
            Mutation(
                *(kind, *self._function, node.lineno, self._lines),
                *(start, end, before, after),
            )
        )


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_prose(node: ast.expr) -> bool:
    """Whether it is text for people: words with spaces between, or nothing."""
    if isinstance(node, ast.JoinedStr):
        return True
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and (" " in value or not value)


def _is_spoken(node: ast.expr) -> bool:
    """Whether it is a call that only logs or prints."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return isinstance(node.func.value, ast.Name) and node.func.value.id in _SPOKEN


def names(found: list[Mutation]) -> Iterator[str]:
    """A distinct name for each: equal ones in one function are numbered."""
    seen: dict[str, int] = {}
    for mutation in found:
        number = seen[mutation.name] = seen.get(mutation.name, 0) + 1
        yield mutation.name if number == 1 else f"{mutation.name} ({number})"
