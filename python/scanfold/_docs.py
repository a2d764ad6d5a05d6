"""Completes docstrings: help() describes each argument of every public function and what it returns,
but the texts are written only once, here.

A docstring may describe arguments itself, in lines such as "axis, dim   which"; those lines stay,
and "as for cumsum" is replaced by what cumsum says of that argument. The other arguments are added,
in the order of the signature: as a function of the same name has them (nansum: as sum), or from the
list below. If no paragraph begins with "Returns", one is added.
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


_LIKE = "Returns an array of x's shape, of the same library and on the same device."
_RETURNS = {
    "scan": _LIKE,
    "fold": "Returns an array without the folded axes, of the same library as x and on the same device: without dimensions if all axes are "
            "folded. With segments the axis has one element for each segment.",
    "map": _LIKE,
}
_said = {}  # (function, argument): [the arguments described together, the text] of the first function of that name


def _kind(function, names):
    if "exclusive" in names or function.__name__.startswith("cum"):
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


def _as_there(function, name, names, found):
    """How an earlier function of this name, without "nan", describes an argument; or None."""
    together, text = _said.get((function[3:] if function.startswith("nan") else function, name), ((), None))
    return [tuple(n for n in together if n in names and n not in found), text] if text else None


def _written(function, names, found, special):
    """The lines that describe the arguments: one entry for each group described together."""
    pairs, kind = [], _kind(function, names)
    for name in names:
        given = [(name,), special[name]] if name in special else found.get(name) or _as_there(function.__name__, name, names, found)
        for together, text in () if given else _ARGUMENTS:
            if name in together:
                given = [tuple(n for n in together if n in names and n not in found), text if isinstance(text, str) else text[kind]]
        if given and given[1].startswith("as for "):
            given = [given[0], _said[given[1].rpartition(" ")[2].rpartition(".")[2], name][1]]
        if given:
            _said.setdefault((function.__name__, name), given)
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


def _with_returns(lines, text):
    """Puts a paragraph in front of the examples, if no other says what is returned."""
    if not any(line.startswith("Returns ") for line in lines):
        at = next((number for number, line in enumerate(lines) if line.startswith(">>> ")), len(lines))
        lines[at:at] = ["", *_wrapped("", text, "")] if at == len(lines) else [*_wrapped("", text, ""), ""]


def complete(function, left_out=(), returns=_RETURNS, example=None, **special):
    """Adds to a function's docstring what is missing: arguments, what is returned, an example.
    Returns the function.

    `special` has texts that are used instead of those in _ARGUMENTS. Lines that describe arguments
    in `left_out` are removed. `example` takes the place of the docstring's own examples."""
    if not function.__doc__:  # python -OO has no docstrings
        return function
    names = _names(function)
    lines = inspect.cleandoc(function.__doc__).splitlines()
    found, first, last = _described(lines, [*names, *left_out])
    if names and (first is not None or any(name in together for name in names for together, _ in _ARGUMENTS)):
        table = list(_written(function, names, found, special))
        if first is None:
            first = last = lines.index("") if "" in lines else len(lines)
            table = ["", *table]
        lines[first:last] = table
        _with_returns(lines, returns[_kind(function, names)])
    if example is not None:
        own = next((number for number, line in enumerate(lines) if line.startswith(">>> ")), len(lines) + 1)
        lines[own - 1:] = ["", *example.strip().splitlines()]
    function.__doc__ = "\n    ".join(lines) + "\n    "
    return function
