"""Completes docstrings: help() describes each argument of every public function, but the texts are
written only once, here.

A docstring may describe arguments itself, in lines such as "axis, dim   which"; those lines stay.
The other arguments are added, in the order of the signature.
"""
import inspect
import re

_WIDTH = 100
_ENTRY = re.compile(r"(\w+(?:, \w+)*) {2,}(\S.*)")

# Arguments that are described together, with one text for all functions or one for each kind.
_ARGUMENTS = (
    (("x",), "a NumPy, torch, JAX or CuPy array, or any object with __dlpack__"),
    (("axis", "dim"), {
        "scan": "the axis; negative numbers count from the end. Not needed if x has one dimension",
        "fold": "one axis, a tuple of axes, or None for all. Several axes are folded as one, in row-major order; () folds nothing",
        "map": "one axis, or a tuple of axes, which count as one; by default the last"}),
    (("ord",), "2, 1, any other number, inf and -inf (the largest and the smallest absolute value), or 0 (how many are not 0)"),
    (("weight", "bias"), "arrays with x's shape along the axes, or with as many dimensions as x, broadcast to it; by default 1 and 0"),
    (("eps",), "a small number that keeps the divisor away from 0"),
    (("correction", "ddof"), "subtracted from the number of elements before dividing by it. By default as in the array's own library: 1 for "
                             "torch tensors, 0 for all other arrays"),
    (("keepdims", "keepdim"), "keep the folded axes, with length 1"),
    (("reverse",), "from the last element to the first"),
    (("exclusive",), "each result leaves its own element out; the first one has no elements"),
    (("mask",), "bool or uint8, broadcast to x: elements where it is False do not count, even if they are NaN"),
    (("skip_nan",), "elements that are NaN do not count"),
    (("initial",), "a number that is combined with every result, on the left"),
    (("dtype",), "of the result. By default real dtypes stay, and integers become float64; for torch's integers it must be given, as in torch"),
    (("out",), "an array to write to, which is returned; it may be an argument that has the result's shape"),
    (("return_indices",), "return (values, indices), computed in one read"),
    (("offsets", "lengths", "reset"), "cut the axis into segments, which are computed separately (docs/segments.md). Give one of the three: offsets, where "
                                      "each segment begins and the last one ends; lengths, one for each segment; reset, True where one begins"),
    (("group",), "the process group; None is the default one"),
)


def _kind(names):
    if "exclusive" in names:
        return "scan"
    return "fold" if "keepdims" in names or "keepdim" in names else "map"


def _described(lines, names):
    """Which arguments a docstring describes itself.

    ({argument: [the arguments described with it, the text]}, the number of the first such line, the
    number of the line after the last)"""
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
    """The lines that describe the arguments: one entry for each group described together."""
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
    """Wraps a text. textwrap would take longer than the whole rest of the import."""
    for word in text.split():
        if len(line) + len(word) >= _WIDTH:
            yield line.rstrip()
            line = indent
        line += word + " "
    yield line.rstrip()


def _names(function):
    """The names of a function's arguments. inspect.signature is slower, so it is used only where it
    is needed."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__signature__") or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return [name for name in inspect.signature(function).parameters if name != "self"]
    return code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def complete(function, left_out=(), **special):
    """Adds the missing descriptions of arguments to a function's docstring. Returns the function.

    `special` has texts that are used instead of those in _ARGUMENTS. Lines that describe arguments
    in `left_out` are removed."""
    if not function.__doc__:  # python -OO has no docstrings
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
