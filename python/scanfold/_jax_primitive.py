"""A JAX primitive that computes an expression in the library's notation: its lowering to XLA, its
derivatives and its batching rule.

Called by _jax_calls.py.
"""
import functools
import math

import jax
import jax.numpy as jnp

from . import _derivatives, _expression_of, _notation, _scanfold, _transposes
from ._dtypes import name as _dtype_name

if not hasattr(jax, "ffi") or not hasattr(jax.ffi, "ffi_lowering"):
    raise ImportError(f"scanfold.jax calls XLA's foreign function interface by jax.ffi, which JAX has from 0.5 on; this is JAX {jax.__version__}. "
                      "Outside of jax.jit and its like, scanfold's own functions take JAX's arrays")

from jax.extend import core as _core  # noqa: E402
from jax.interpreters import ad as _ad, batching as _batching, mlir as _mlir  # noqa: E402

_TARGET = "scanfold_expression"
for _platform in ("cpu", "CUDA"):
    jax.ffi.register_ffi_target(_TARGET, _scanfold.xla_handler(_platform), platform=_platform)

# ---------------------------------------------------------------------------------------------------------------
# The primitive
# ---------------------------------------------------------------------------------------------------------------
expression_p = _core.Primitive(_TARGET)
expression_p.multiple_results = True


def names_of(text):
    return _expression_of(text)[1]


def _given(text, arrays):
    """{input's name: (shape, dtype's name)}"""
    return {name: (tuple(x.shape), _dtype_name(x.dtype)) for name, x in zip(names_of(text), arrays)}


def _abstract(*arrays, text):
    made = _notation.Types(_given(text, arrays)).of_line(text)
    for _, dtype in made:
        if dtype.endswith("64") and not jax.config.jax_enable_x64:
            raise TypeError(f"a result of {text} is {dtype}, which JAX has with jax_enable_x64 only: write .astype({_notation.short(dtype)[:-2]}32) behind it")
    if not _varying(arrays[0]):
        return [jax.core.ShapedArray(shape, jnp.dtype(dtype)) for shape, dtype in made]

    def like_the_first(shape, dtype):  # _alike made the others vary along the same axes
        where = jax.sharding.NamedSharding(arrays[0].sharding.mesh, jax.sharding.PartitionSpec(*(None,) * len(shape)))
        return arrays[0].update(shape=shape, dtype=jnp.dtype(dtype), weak_type=False, sharding=where)
    return [like_the_first(*one) for one in made]


def _varying(x):
    """The mesh axes along which x varies inside shard_map. JAX versions have two different names
    for it; older versions have none."""
    if not isinstance(x, jax.core.ShapedArray):
        x = jax.typeof(x) if hasattr(jax, "typeof") else None
    return getattr(getattr(x, "manual_axis_type", None), "varying", None) or getattr(x, "vma", None) or frozenset()


def _alike(arrays):
    """The arrays of a call, made to vary along the same mesh axes inside shard_map. The gradient of
    an array that did not vary along an axis is summed over that axis."""
    axes = frozenset().union(*map(_varying, arrays))
    if not axes:
        return arrays
    vary = getattr(jax.lax, "pcast", None)
    vary = functools.partial(vary, to="varying") if vary else jax.lax.pvary
    return [vary(x, tuple(axes - _varying(x))) if axes - _varying(x) else x for x in arrays]


def _lowering(ctx, *operands, text):
    return jax.ffi.ffi_lowering(_TARGET)(ctx, *operands, text=text)


@functools.lru_cache(maxsize=1024)
def _compiled(text):
    return jax.jit(functools.partial(expression_p.bind, text=text))


def bind(text, by_name):
    """The results of a line for these arrays, as a list."""
    return expression_p.bind(*_alike([by_name[name] for name in names_of(text)]), text=text)


def _bind(trees, by_name):
    """The results of these trees for these arrays; None for each tree that is None."""
    text = ", ".join(tree.text for tree in trees if tree is not None)
    made = iter(bind(text, by_name) if text else ())
    return [None if tree is None else next(made) for tree in trees]


def _trees(text):
    return list(_read(text))


@functools.lru_cache(maxsize=1024)
def _read(text):
    try:
        return tuple(_notation.parse(text))
    except _notation.Unreadable as reason:
        raise NotImplementedError(f"scanfold.jax neither differentiates nor maps {reason}, as in {text}") from None


def is_readable(text):
    try:
        return bool(_read(text))
    except NotImplementedError:
        return False


def _of_segments(kind, arrays, offsets, axis, length, dtype):
    """The lengths of segments, or which elements are inside a segment, in a shape that
    broadcasts."""
    offsets = arrays[offsets]
    made = jnp.arange(length) < offsets[-1] if kind == "inside" else (offsets[1:] - offsets[:-1]).astype(dtype)
    return made.reshape(made.shape + (1,) * (-axis - 1))


def _jvp(primals, tangents, *, text):
    results = expression_p.bind(*primals, text=text)
    names, given = names_of(text), _given(text, primals)
    by_name = dict(zip(names, tangents))
    moving = [name for name, t in by_name.items() if type(t) is not _ad.Zero and "float" in given[name][1]]
    trees, extra = _derivatives.tangent(_trees(text), given, moving)
    arrays = dict(zip(names, primals))
    for name, (kind, which) in extra.items():
        arrays[name] = by_name[which] if kind == "tangent" else results[which] if kind == "result" else _of_segments(kind, arrays, *which)
    made = _bind(trees, arrays)
    return results, [_ad.Zero.from_primal_value(y) if t is None else t for y, t in zip(results, made)]


def _transpose(cts, *arrays, text):
    avals = [x.aval if _ad.is_undefined_primal(x) else x for x in arrays]
    names, given = names_of(text), _given(text, avals)
    linear = [name for name, x in zip(names, arrays) if _ad.is_undefined_primal(x)]
    trees, extra = _transposes.transpose(_trees(text), given, linear, [type(ct) is not _ad.Zero for ct in cts])
    known = {name: x for name, x in zip(names, arrays) if name not in linear}
    known.update({name: cts[number] for name, number in extra.items()})
    made = dict(zip(linear, _bind([trees.get(name) for name in linear], known)))
    return [made[name] if made.get(name) is not None else _ad.Zero(aval) if name in linear else None for name, aval in zip(names, avals)]


def _batch(arrays, dims, *, text):
    """The batching rule: the mapped dimension of each array becomes the first. The line counts axes
    from the end, so it stays the same, except for shapes that are written in it."""
    size = next(x.shape[d] for x, d in zip(arrays, dims) if d is not None)
    own = [x if d is None else jax.ShapeDtypeStruct(x.shape[:d] + x.shape[d + 1:], x.dtype) for x, d in zip(arrays, dims)]
    names = names_of(text)
    more = _notation.OneMore(_notation.Types(_given(text, own)), [name for name, d in zip(names, dims) if d is not None], size)
    moved = {name: x if d is None else jnp.moveaxis(x, d, 0) for name, x, d in zip(names, arrays, dims)}
    trees = _trees(text)
    return _bind([more.of(tree) for tree in trees], moved), [0 if more.is_mapped(tree) else None for tree in trees]


expression_p.def_impl(lambda *arrays, text: _compiled(text)(*arrays))
expression_p.def_abstract_eval(_abstract)
_ad.primitive_jvps[expression_p] = _jvp
_ad.primitive_transposes[expression_p] = _transpose
_batching.primitive_batchers[expression_p] = _batch
for _platform in ("cpu", "cuda"):
    _mlir.register_lowering(expression_p, _lowering, platform=_platform)


def computed(text, **arrays):
    """The results of a line for these arrays. Its axes are first counted from the end."""
    arrays = {name: x for name, x in arrays.items() if x is not None}
    types = _notation.Types({name: (tuple(x.shape), _dtype_name(x.dtype)) for name, x in arrays.items()})
    trees = [_notation.from_the_end(tree, types) for tree in _trees(text)]
    made = _bind([_narrowed(tree, types) for tree in trees], arrays)
    return made[0] if len(made) == 1 else tuple(made)


def _narrowed(tree, types):
    """The tree, cast to 32 bits if JAX runs without 64-bit types."""
    dtype = types.dtype(tree)
    if dtype.endswith("64") and not jax.config.jax_enable_x64:
        return _notation.call("astype", tree, dtype=dtype[:-2] + "32")
    return tree
