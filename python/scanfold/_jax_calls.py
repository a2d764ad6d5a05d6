"""The functions of scanfold.jax: they turn arguments into an expression in the library's notation,
as the package's own functions do."""
import math

import jax
import jax.numpy as jnp

import scanfold as _package

from . import _applied, _derived, _notation, _pairs, _segments
from ._dtypes import name as _dtype_name
from ._jax_primitive import bind, computed, is_readable, names_of


def run(expression, /, **inputs):
    """Computes an expression, such as "cumsum(x * m, 1)", in as few passes over memory as it needs.

    expression   a line of the notation (docs/expressions.md)
    inputs       an array for each name

    Returns a JAX array, or a tuple of them if the expression has several results: those of
    scanfold.run with exact=True.

    The expression can be differentiated and mapped by vmap if it consists of the functions here, of
    elementwise functions, and of flip, squeeze, unsqueeze and broadcast_to with their axes given.

    >>> import jax.numpy as jnp, scanfold.jax as sfj
    >>> sfj.run("cumsum(x * m, 0)", x=jnp.array([1., 2., 3.]), m=jnp.array([0., 1., 1.]))
    Array([0., 2., 5.], dtype=float32)
    """
    names = names_of(expression)
    wrong = set(names) ^ set(inputs)
    if wrong:
        raise TypeError(f"{', '.join(sorted(wrong))}: {'given' if wrong <= set(inputs) else 'not given'}. The inputs are {', '.join(names)}")
    arrays = {name: jnp.asarray(x) for name, x in inputs.items()}
    if is_readable(expression):
        return computed(expression, **arrays)
    made = bind(expression, arrays)  # computed, but without derivatives and vmap
    return made[0] if len(made) == 1 else tuple(made)


# ---------------------------------------------------------------------------------------------------------------
# The package's functions
# ---------------------------------------------------------------------------------------------------------------
NOT_TAKEN = ("out",)
_FOLDS = {"sum", "prod", "max", "min", "logsumexp", "argmax", "argmin", "mean", "var", "std", "sumsq", "norm", "any", "all", "count_nonzero"}


class Given(dict):
    """The arguments of a call by name; arguments that have two names are merged into one."""

    def __init__(self, bound):
        super().__init__(bound)
        for name, other in (("axis", "dim"), ("keepdims", "keepdim"), ("correction", "ddof")):
            if self.get(other) is not None:
                self[name] = _package._one(self.get(name) if name != "axis" or "a" not in self else None, self[other], f"{name} and {other}")
        for name in ("x", "a", "b", "weight", "bias"):
            if self.get(name) is not None and not (name == "a" and isinstance(self[name], (int, float))):
                self[name] = jnp.asarray(self[name])
        self._mask()

    def _mask(self):
        x, mask = self.get("x"), self.get("mask")
        if mask is not None:
            mask = jnp.asarray(mask)
            if mask.dtype not in (jnp.bool_, jnp.uint8):
                raise TypeError(f"mask has dtype {mask.dtype}: bool or uint8 is expected")
        if self.get("skip_nan") and jnp.issubdtype(x.dtype, jnp.floating):
            numbers = x == x
            mask = numbers if mask is None else numbers & (mask != 0)
        self["mask"] = mask

    def segments(self, name, x, axis):
        """The offsets, made from whichever of offsets, lengths and reset was given, or None."""
        given = [option for option in ("offsets", "lengths", "reset") if self.get(option) is not None]
        if len(given) > 1:
            raise TypeError(f"{' and '.join(given)} say the same: give one of them")
        if not given:
            return None
        n = x.shape[_segments._one_axis(x, axis)]
        if given == ["reset"]:
            return _from_reset(name, jnp.asarray(self["reset"]), n)
        made = jnp.asarray(self[given[0]])
        if not jnp.issubdtype(made.dtype, jnp.integer) or made.ndim != 1:
            raise ValueError(f"{given[0]} have dtype {made.dtype} and {made.ndim} dimensions; they must be whole numbers in one dimension")
        made = made if made.dtype in (jnp.int32, jnp.int64) else made.astype(jnp.int32)
        return made if given == ["offsets"] else jnp.concatenate([jnp.zeros(1, made.dtype), jnp.cumsum(made)])

    def initial(self):
        number = self.get("initial")
        if number is not None and not isinstance(number, (int, float)):
            raise TypeError(f"initial is {type(number)}: scanfold.jax takes a number here")
        return number


def _from_reset(name, reset, n):
    """Offsets from reset.

    For a scan there may be as many segments as elements, with empty ones at the end, so their
    number need not be known. A fold has one result for each segment, so the segments must be
    counted. That is not possible with a tracer."""
    if reset.shape != (n,):
        raise ValueError(f"reset has shape {reset.shape}; the axis has {n} elements, and each must be marked or not")
    size = n
    if name in _FOLDS:
        if isinstance(reset, jax.core.Tracer):
            raise TypeError(f"reset is traced, and scanfold.jax.{name} has as many results as it marks, which nobody knows then: give offsets or lengths")
        size = int(jnp.count_nonzero(reset[1:])) + 1 if n else 0
    if not n:
        return jnp.zeros(1, jnp.int32)
    begins = jnp.nonzero(reset.astype(bool).at[0].set(True), size=size, fill_value=n)[0]
    return jnp.concatenate([begins, jnp.full(1, n, begins.dtype)])


def _has_64_bits():
    return bool(jax.config.jax_enable_x64)


def _accumulated(x, dtype):
    """The dtype of a sum or product."""
    given = _dtype_name(x.dtype)
    if dtype is not None or "float" in given:
        return None if dtype is None else _dtype_name(dtype)
    return ("uint" if given.startswith("uint") else "int") + ("64" if _has_64_bits() else "32")


def _scan_or_fold(name, given):
    x, mask, scans = given["x"], given["mask"], name in _SCANS
    offsets = given.segments(name, x, given.get("axis"))
    if scans and x.ndim == 0:
        given = Given({**given, "x": x.reshape(1), "mask": None if mask is None else mask.reshape(1), "axis": 0, "dim": None, "skip_nan": False})
        return jax.tree_util.tree_map(lambda y: y.reshape(()), _scan_or_fold(name, given))
    axes = _derived._axes_of(x, given.get("axis"), scans)
    axes = tuple(range(x.ndim)) if axes is None else axes
    options = {"axis": axes[0] if scans else axes, "mask": _notation.named("mask") if mask is not None else None,
               "offsets": _notation.named("offsets") if offsets is not None else None}
    options.update(keepdim=given.get("keepdims"), reverse=given.get("reverse"), exclusive=given.get("exclusive"), initial=given.initial())
    if name in ("argmax", "argmin"):
        if len(axes) != 1 and given.get("axis") is not None:
            raise TypeError(f"axis is {given['axis']!r}: one axis is expected, or None for the position among all elements")
        options["dtype"] = "int64" if _has_64_bits() else "int32"
    elif name in ("sum", "prod", "cumsum", "cumprod"):
        options["dtype"] = _accumulated(x, given.get("dtype"))
    elif name.startswith("log") and given.get("dtype") is None and "float" not in _dtype_name(x.dtype):
        options["dtype"] = "float64" if _has_64_bits() else "float32"
    elif given.get("dtype") is not None:
        options["dtype"] = _dtype_name(given["dtype"])
    if name == "prod" and len(axes) > 1:
        return _prod_of_several(x, mask, axes, options)
    if given.get("return_indices"):
        if given.initial() is not None or given.get("dtype") is not None or given.get("skip_nan"):
            raise TypeError("initial, dtype and skip_nan do not go with return_indices")
        other = _notation.call(("cumarg" if scans else "arg") + name[-3:], _notation.named("x"), **options)
        return computed(f"{_notation.call(name, _notation.named('x'), **options)}, {other}", x=x, mask=mask, offsets=offsets)
    return computed(_notation.call(name, _notation.named("x"), **options).text, x=x, mask=mask, offsets=offsets)


def _prod_of_several(x, mask, axes, options):
    """A product over several axes. Only a product along one axis has a derivative, so the folded
    axes are moved to the end, in order, and joined into one."""
    stay = [a for a in range(x.ndim) if a not in axes]
    order = stay + sorted(axes)
    shape = [x.shape[a] for a in stay]

    def rows(v):
        return v.transpose(order).reshape(*shape, math.prod(x.shape[a] for a in axes))
    keepdim, options = options["keepdim"], {**options, "axis": (len(stay),), "keepdim": None}
    masked = None if mask is None else rows(jnp.broadcast_to(mask, x.shape))
    y = computed(_notation.call("prod", _notation.named("x"), **options).text, x=rows(x), mask=masked)
    return y.reshape([1 if a in axes else n for a, n in enumerate(x.shape)]) if keepdim else y


def _derived_call(name, given):
    x, mask = given["x"], given["mask"]
    axes = _derived._axes_of(x, given.get("axis"), name in _derived.SCANS)
    parameter = given.get("ord") if name == "norm" else given.get("correction")
    if parameter is None:
        parameter = 2 if name == "norm" else 0  # JAX's default, as in NumPy
    offsets = given.segments(name, x, given.get("axis"))
    if name in ("var", "std") and given.get("skip_nan"):
        name = "nan" + name  # not only a mask: it makes variances of too few elements NaN
    if name in _derived.VARIANCES and offsets is None:
        parameter = min(parameter, _derived.folded(x.shape, axes))
    dtype = _derived.result_dtype(name, _dtype_name(x.dtype), given.get("dtype"), False, _has_64_bits())
    text = _derived.text(name, axes, given.get("keepdims"), parameter, mask is not None, name == "cumvar" and given.get("skip_nan"), dtype,
                         segmented=offsets is not None, reverse=given.get("reverse"), exclusive=given.get("exclusive"))
    return computed(text, x=x, mask=mask, offsets=offsets)


def _applied_call(name, given):
    x, mask = given["x"], given["mask"]
    axis = given.get("axis")
    axes = _derived._axes_of(x, -1 if axis is None else axis, False)
    parameter = given.get("ord", 2) if name == "normalize" else given.get("correction") or 0
    eps = given.get("eps")
    dtype = _derived.result_dtype(name, _dtype_name(x.dtype), given.get("dtype"), False, _has_64_bits())
    beside = {word: _of_rank(x, axes, word, given[word]) for word in ("weight", "bias") if given.get(word) is not None}
    beside["offsets"], beside["mask"] = given.segments(name, x, -1 if axis is None else axis), mask
    text = _applied.text(name, axes, parameter, None if eps is None else float(eps), dtype, [word for word, one in beside.items() if one is not None])
    return computed(text, x=x, **beside)


def _of_rank(x, axes, name, beside):
    """A weight or bias, reshaped to as many dimensions as x has."""
    if beside.ndim == x.ndim:
        return beside
    axes = sorted(axes)
    if beside.shape != tuple(x.shape[a] for a in axes):
        raise ValueError(f"{name} has shape {beside.shape}; along the axes x has {tuple(x.shape[a] for a in axes)}, which it must have, or {x.ndim} "
                         "dimensions")
    return beside.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])


def _recurrence_call(name, given):
    a, b, initial = given["a"], given["b"], given.get("initial")
    number, with_state = isinstance(a, (int, float)), initial is not None and not isinstance(initial, (int, float))
    shape, (reverse, exclusive) = _pairs._shape(a, b), (bool(given.get("reverse")), bool(given.get("exclusive")))
    if not shape:
        if with_state:
            raise ValueError("b has no dimensions: its initial state is a number")
        given = Given({**given, "a": a if number else a.reshape(1), "b": b.reshape(1), "dim": None, "axis": 0})
        return _recurrence_call(name, given).reshape(())
    axis = _package._axis(len(shape), given["axis"])
    names = [_dtype_name(x.dtype) for x in (a, b) if hasattr(x, "shape")]
    dtype, wide = _pairs.recurrence_dtypes(names, given.get("dtype"), "float64" if _has_64_bits() else "float32")
    arrays = {"a": None if number else a, "b": b, "offsets": given.segments(name, jax.ShapeDtypeStruct(shape, b.dtype), axis)}
    segmented = arrays["offsets"] is not None
    if with_state:
        state = jnp.asarray(initial)
        begun = _states(arrays["offsets"], state, shape, axis, reverse) if segmented else _pairs._state(jnp, state, b, shape, axis, reverse)
        arrays["h"], arrays["first"] = begun
        dtype = dtype or _pairs.promoted(names)
    text = _pairs.recurrence_text(a if number else None, axis, reverse, exclusive, "state" if with_state else initial, dtype, wide, segmented)
    return computed(text, **arrays)


def _states(offsets, state, shape, axis, reverse):
    """(h, first): the initial state of its segment for each element, and a mask that is True where
    a segment begins."""
    k, n = offsets.shape[0] - 1, shape[axis]
    own = _segments.check_states(state, k, shape, axis)
    h = jnp.broadcast_to(state.reshape(own), own[:axis] + (k,) + own[axis + 1:])
    begin, end = offsets[:-1], offsets[1:]
    at = jnp.where(begin < end, end - 1 if reverse else begin, n)
    first = jnp.zeros(n, bool).at[at].set(True, mode="drop")
    return computed(f"spread(h, {axis}, {n}, offsets=offsets)", h=h, offsets=offsets), first.reshape((n,) + (1,) * (len(shape) - 1 - axis))


_SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
FUNCTIONS = {
    **{name: _scan_or_fold for name in (*_SCANS, "sum", "prod", "max", "min", "logsumexp", "argmax", "argmin")},
    **{name: _derived_call for name in ("mean", "var", "std", "cummean", "cumvar", "sumsq", "norm", "any", "all", "count_nonzero")},
    **{name: _applied_call for name in _applied.__all__}, "linear_recurrence": _recurrence_call,
}
