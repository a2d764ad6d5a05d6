"""Docstrings in full: each argument of every public function is described where help() shows it, and written down once, here.

A docstring may describe arguments itself, in lines such as "axis, dim   which": those stay. The others are added in the order of
the signature.
"""
import inspect
import re

_WIDTH = 100
_ENTRY = re.compile(r"(\w+(?:, \w+)*) {2,}(\S.*)")

# Arguments that are described together, and how: a text for all functions, or one for each kind of them.
_ARGUMENTS = (
    (("x",), "an array of NumPy's, torch's, JAX's or CuPy's, or another with __dlpack__"),
    (("axis", "dim"), {
        "scan": "along which; negative counts from the end. May be left out where x has one dimension",
        "fold": "None for all, a number, or a tuple; several axes count as one, in row-major order; () folds nothing",
        "map": "a number, or a tuple for several axes as one; left out, the last"}),
    (("ord",), "2, 1, any other number, inf and -inf (the largest and the smallest absolute value), or 0 (how many are not 0)"),
    (("weight", "bias"), "of the lengths along the axes, in order, or of x's rank, and broadcast to it; left out, 1 and 0"),
    (("eps",), "keeps what is divided by away from 0"),
    (("correction", "ddof"), "taken off the number of elements before dividing by it. Left out it is that of the array's library: 1 for "
                             "torch's tensors, 0 for NumPy's and all other arrays"),
    (("keepdims", "keepdim"), "folded axes stay, with length 1"),
    (("reverse",), "from the last element to the first"),
    (("exclusive",), "each result leaves its own element out; the first is the result of nothing"),
    (("mask",), "bool or uint8, broadcast to x: elements where it is False do not count, whatever they are (NaN included)"),
    (("skip_nan",), "elements that are NaN do not count"),
    (("initial",), "a number that every result begins with, on the left"),
    (("dtype",), "of the result. Left out, real dtypes stay, and NumPy's integers become float64; torch's must be said, as in torch"),
    (("out",), "an array to write to, an argument included that has the result's shape; it is returned"),
    (("return_indices",), "(values, indices) of one read"),
    (("offsets", "lengths", "reset"), "the axis is cut into segments, each by itself: offsets says where each begins, and the last one ends; or, "
                                      "instead of that, lengths, one a segment; or reset, True where one begins (docs/segments.md)"),
    (("group",), "the process group; None is the default one"),
)


def _kind(names):
    if "exclusive" in names:
        return "scan"
    return "fold" if "keepdims" in names or "keepdim" in names else "map"


def _described(lines, names):
    """({argument: its line's arguments and text}, the number of the first such line, that after the last)"""
    found, first, last, current = {}, None, None, None
    for number, line in enumerate(lines):
        entry = _ENTRY.fullmatch(line)
        given = entry.group(1).split(", ") if entry else []
        if given and all(name in names for name in given):
            current = [tuple(given), entry.group(2)]
            found.update({name: current for name in given})
            first, last = number if first is None else first, number + 1
        elif current is not None and line.startswith("  ") and last == number:
            current[1] += " " + line.strip()
            last = number + 1
        elif current is not None:
            break
    return found, first, last


def _written(names, found, special):
    """One line for each argument, or for those that are described together."""
    pairs, kind = [], _kind(names)
    for name in names:
        given = found.get(name) or (special.get(name) and [(name,), special[name]])
        for together, text in () if given else _ARGUMENTS:
            if name in together:
                given = [tuple(n for n in together if n in names and n not in found), text if isinstance(text, str) else text[kind]]
        if given and given not in pairs:
            pairs.append(given)
    column = max(len(", ".join(together)) for together, _ in pairs) + 3
    for together, text in pairs:
        yield from _wrapped(", ".join(together).ljust(column), text, " " * column)


def _wrapped(line, text, indent):
    """textwrap would take longer over this than all the rest of an import."""
    for word in text.split():
        if len(line) + len(word) >= _WIDTH:
            yield line.rstrip()
            line = indent
        line += word + " "
    yield line.rstrip()


def _names(function):
    """Of its arguments, as inspect.signature has them, which takes longer."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__signature__") or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return [name for name in inspect.signature(function).parameters if name != "self"]
    return code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def complete(function, left_out=(), **special):
    """Adds to a function's docstring what it does not say about its arguments. `special` has texts that go before those here; of arguments
    that are left out, lines go. The function is returned."""
    if not function.__doc__:  # python -OO
        return function
    names = _names(function)
    lines = inspect.cleandoc(function.__doc__).splitlines()
    found, first, last = _described(lines, [*names, *left_out])
    if names and (first is not None or any(name in together for name in names for together, _ in _ARGUMENTS)):
        table = list(_written(names, found, special))
        if first is None:
            first = last = lines.index("") if "" in lines else len(lines)
            table = ["", *table]
        lines[first:last] = table
    function.__doc__ = "\n    ".join(lines) + "\n    "
    return function
