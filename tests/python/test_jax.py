"""scanfold.jax: the bits of the package's own functions under jit; derivatives beside JAX's; vmap and shard_map; refusals."""
import functools
import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from oracle import same_bits

import scanfold

jax = pytest.importorskip("jax", reason="JAX is not installed")
if not hasattr(jax, "ffi"):
    pytest.skip(f"JAX {jax.__version__} has no jax.ffi", allow_module_level=True)
import jax.numpy as jnp  # noqa: E402

import scanfold.jax as sfj  # noqa: E402

X = np.random.default_rng(1).standard_normal((4, 3, 37)).astype(np.float32)
M = np.random.default_rng(2).random((4, 1, 37)) < 0.7
W = np.random.default_rng(3).standard_normal(37).astype(np.float32)


@pytest.fixture(autouse=True)
def here(request):
    """Arrays are made on the device under test."""
    device = request.node.callspec.params.get("device") if hasattr(request.node, "callspec") else None
    try:
        found = jax.devices("cpu" if device in (None, "cpu") else "cuda")[0]
    except RuntimeError as reason:
        pytest.skip(f"JAX has no such device: {reason}")
    with jax.default_device(found):
        yield


def on_the_cpu(function, *arrays):
    with jax.default_device(jax.devices("cpu")[0]):
        return jax.tree_util.tree_map(np.asarray, function(*map(jnp.asarray, arrays)))


CALLS = [
    ("cumsum", {"axis": 2, "reverse": True, "mask": M}), ("cumsum", {"dim": 0, "exclusive": True, "initial": 2}), ("cumprod", {"axis": -1}),
    ("cummax", {"axis": 1}), ("cummin", {"axis": 2, "mask": M, "return_indices": True}), ("logcumsumexp", {"axis": 2}),
    ("sum", {}), ("sum", {"axis": (0, 2), "keepdims": True, "mask": M}), ("prod", {"axis": 2}), ("prod", {"axis": (2, 0)}),
    ("max", {"axis": 1, "return_indices": True}), ("min", {"axis": 2, "mask": M}), ("logsumexp", {"axis": -1}), ("argmax", {"axis": 2}), ("argmin", {}),
    ("mean", {"axis": 2, "mask": M}), ("var", {"axis": 1, "ddof": 1}), ("std", {}), ("norm", {"axis": 2}), ("sumsq", {"axis": 0}), ("any", {"axis": 0}),
    ("count_nonzero", {}), ("cummean", {"axis": 2}), ("softmax", {"axis": 2, "mask": M}), ("log_softmax", {"axis": 1}),
    ("layer_norm", {"weight": W, "bias": W, "eps": 1e-3}), ("rms_norm", {"weight": W}), ("normalize", {}), ("standardize", {"axis": 2, "correction": 1}),
]


# Of segments: one is empty, and elements are left over behind the last.
O = np.array([0, 5, 5, 8, 30], np.int32)
FULL = np.array([0, 5, 8, 30], np.int32)
SEGMENTED = [
    ("cumsum", {"reverse": True, "mask": M}), ("cumprod", {"exclusive": True, "initial": 2}), ("cummax", {"return_indices": True}), ("logcumsumexp", {}),
    ("sum", {"mask": M}), ("prod", {}), ("max", {"return_indices": True}), ("logsumexp", {}), ("argmin", {}), ("mean", {"mask": M}), ("var", {"ddof": 1}),
    ("norm", {}), ("any", {}), ("cummean", {}), ("softmax", {"mask": M}), ("layer_norm", {"weight": W}), ("standardize", {}),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_bits(device, dtype):
    """Under jit, on whatever device, what the package's own function gives on the CPU."""
    for name, options in CALLS + [(name, {**options, "axis": 2, "offsets": O}) for name, options in SEGMENTED]:
        x = jnp.asarray(X * 8).astype(dtype)
        with jax.default_device(jax.devices("cpu")[0]):
            theirs = getattr(scanfold, name)(jnp.asarray(np.asarray(x)), **options)
        ours = jax.jit(functools.partial(getattr(sfj, name), **options))(x)
        for y, expected in zip(jax.tree_util.tree_leaves(ours), jax.tree_util.tree_leaves(theirs)):
            y, expected = (np.asarray(v.astype(jnp.float32) if v.dtype == jnp.bfloat16 else v) for v in (y, expected))
            assert same_bits(y, expected), (name, options, y.dtype, expected.dtype)


@pytest.mark.parametrize("name", ["logcumsumexp", "cumprod", "sum", "prod", "max", "logsumexp", "mean", "var", "std", "sumsq", "norm", "softmax",
                                  "log_softmax", "layer_norm", "rms_norm", "normalize", "standardize"])
def test_masked_nan_has_no_gradient(device, name):
    x, mask = jnp.array([[1.0, 3.0, 0.5, 2.0]]), jnp.array([True, True, False, True])
    for options in ({}, {"offsets": jnp.array([0, 4])}):
        def of(v):
            return jnp.sum(getattr(sfj, name)(v, axis=1, mask=mask, **options) * 2)
        holes = jax.grad(of)(jnp.where(mask, x, jnp.nan))
        np.testing.assert_array_equal(holes, jax.grad(of)(x))
    if name in ("var", "std"):
        expected = jax.grad(lambda v: getattr(sfj, name)(v, axis=1, mask=mask, correction=1)[0])(x)
        nan = jax.grad(lambda v: sfj.run(f"nan{name}(v, 1)", v=v)[0])(jnp.where(mask, x, jnp.nan))
        np.testing.assert_array_equal(nan, expected)


def test_recurrence_bits(device):
    a, b, h = 1 - X * X / 9, X, X[:, :, 0]
    states = X[:, :, :4]
    for options in ({}, {"reverse": True, "initial": 3.0}, {"exclusive": True, "initial": h}, {"axis": 0}, {"offsets": O, "initial": states},
                    {"offsets": O, "reverse": True, "exclusive": True, "initial": states}):
        ours = np.asarray(jax.jit(functools.partial(sfj.linear_recurrence, **{k: v for k, v in options.items()}))(jnp.asarray(a), jnp.asarray(b)))
        assert same_bits(ours, scanfold.linear_recurrence(a, b, **options)), options
    assert same_bits(np.asarray(sfj.linear_recurrence(0.5, jnp.asarray(b))), scanfold.linear_recurrence(0.5, b))


SLOPES = {
    "cumsum": lambda x: sfj.cumsum(x, 2, reverse=True, mask=M), "cumprod": lambda x: sfj.cumprod(x[..., :6], 2, mask=M[..., :6], exclusive=True),
    "cummax": lambda x: sfj.cummax(x, 2, exclusive=True, initial=0), "logcumsumexp": lambda x: sfj.logcumsumexp(x, 2, reverse=True),
    "sum": lambda x: sfj.sum(x, (0, 2), mask=M), "prod": lambda x: sfj.prod(x, (0, 1), keepdims=True, initial=3),
    "min": lambda x: sfj.min(x, 2, mask=M), "logsumexp": lambda x: sfj.logsumexp(x, 2, mask=M), "mean": lambda x: sfj.mean(x, 2, mask=M),
    "cummean": lambda x: sfj.cummean(x, 2), "std": lambda x: sfj.std(x, 2, ddof=1), "norm": lambda x: sfj.norm(x, axis=2),
    "softmax": lambda x: sfj.softmax(x, 2, mask=M), "log_softmax": lambda x: sfj.log_softmax(x, 1),
    "layer_norm": lambda x: sfj.layer_norm(x, weight=x[0, 0], bias=x[1, 1]), "rms_norm": lambda x: sfj.rms_norm(x, weight=x[0, 0], eps=1e-3),
    "normalize": lambda x: sfj.normalize(x, axis=1), "standardize": lambda x: sfj.standardize(x, 2, mask=M, correction=1),
    "linear_recurrence": lambda x: sfj.linear_recurrence(x, x[0], 2, initial=x[0, :, 0], reverse=True),
    "segments' scans": lambda x: jnp.concatenate([
        sfj.cumsum(x, 2, reverse=True, mask=M, offsets=O), sfj.cumprod(x, 2, exclusive=True, offsets=O), sfj.cummax(x, 2, exclusive=True, initial=0, offsets=O),
        sfj.logcumsumexp(x, 2, offsets=O), sfj.linear_recurrence(x, x[0], 2, initial=x[:, :, :4], exclusive=True, offsets=O)]),
    "segments' folds": lambda x: jnp.concatenate([
        sfj.sum(x, 2, mask=M, offsets=O), sfj.prod(x, 2, initial=3, offsets=O), sfj.norm(x, axis=2, offsets=O), sfj.max(x, 2, offsets=FULL),
        sfj.logsumexp(x, 2, mask=M, offsets=FULL), sfj.std(x, 2, offsets=FULL), sfj.mean(x, 2, mask=M, lengths=FULL[1:] - FULL[:-1])], 2),
    "segments' norms": lambda x: jnp.concatenate([
        sfj.softmax(x, 2, mask=M, offsets=O), sfj.log_softmax(x, 2, offsets=O), sfj.layer_norm(x, axis=2, weight=x[0, 0], offsets=O),
        sfj.normalize(x, axis=2, offsets=O), sfj.standardize(x, 2, offsets=O), sfj.rms_norm(x, axis=2, offsets=O)])[..., :30],
    "run": lambda x: sfj.run("cumsum(exp(x) * w, 2) / (2 + sigmoid(x)) + maximum(tanh(x), abs(x))", x=x, w=W),
}


@pytest.mark.parametrize("name", SLOPES)
def test_derivatives(device, name):
    """Forward and reverse beside differences, and so is the gradient's own derivative; mapped, the bits of one by one; on a device those of the CPU."""
    f, step = SLOPES[name], 1e-6
    with wide():
        x, v = jnp.asarray(X, jnp.float64), jnp.asarray(X[::-1], jnp.float64)
        w = jnp.asarray(np.random.default_rng(4).standard_normal(jax.eval_shape(f, x).shape))

        def gradient(x):
            y, back = jax.vjp(f, x)
            return back(w * y)[0]

        @jax.jit
        def both(x, v):
            y, dy = jax.jvp(f, (x,), (v,))
            differences = [(g(x + step * v) - g(x - step * v)) / (2 * step) for g in (f, gradient)]
            return [(dy, differences[0]), (jnp.vdot(gradient(x), v), jnp.vdot(w * y, dy)), (jax.jvp(gradient, (x,), (v,))[1], differences[1])]
        for ours, expected in both(x, v):
            np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-5 * max(1, float(jnp.abs(expected).max())))
    x, v, w = (one.astype(jnp.float32) for one in (x, v, w))
    gradient = jax.jit(lambda x, w: jax.vjp(f, x)[1](w)[0])
    mapped = jax.jit(jax.vmap(gradient, in_axes=(1, None), out_axes=2))(jnp.stack([x, v], 1), w)
    assert same_bits(np.asarray(mapped[:, :, 1]), np.asarray(gradient(v, w)))
    if device != "cpu":
        assert same_bits(np.asarray(gradient(x, w)), on_the_cpu(gradient, X, np.asarray(w)))


def wide():
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def test_equals_share(device):
    """As in JAX: of a maximum that several elements have, each has a part; of a cumulative one the latest has all."""
    x = jnp.asarray([1., 3., 3., 2.])
    assert same_bits(np.asarray(jax.grad(sfj.max)(x)), np.array([0, 0.5, 0.5, 0], np.float32))
    assert same_bits(np.asarray(jax.grad(lambda x: sfj.cummax(x).sum())(x)), np.array([1, 1, 2, 0], np.float32))
    assert np.asarray(jax.grad(lambda x: sfj.cumprod(x).sum())(jnp.asarray([2., 0., 5.]))).tolist() == [1, 12, 0]


def test_segments_end(device):
    """Elements after the last offset have a gradient of 0, except in scans, where they are one
    more segment."""
    x = jnp.asarray(X[0, 0]).at[30:].set(jnp.asarray([np.inf, -np.inf, np.nan, 1e30, -1e30, 0, 1]))
    for f in (sfj.sum, sfj.prod, sfj.logsumexp, sfj.max, sfj.var, sfj.norm, sfj.mean, sfj.softmax, sfj.log_softmax, sfj.layer_norm, sfj.standardize,
              sfj.normalize):
        got = np.asarray(jax.jit(jax.grad(lambda x: (f(x, axis=0, offsets=FULL)[:30] ** 2).sum()))(x))
        assert np.isfinite(got[:30]).all() and got[:30].any() and not got[30:].any(), (f.__name__, got)
    spread = sfj.run("spread(1 / v, 0, 9, offsets=o)", v=jnp.asarray([1., 2., 4.]), o=jnp.asarray([0, 2, 2, 7]))
    assert np.asarray(spread).tolist() == [1, 1, .25, .25, .25, .25, .25, 0, 0]


def test_saying_where_segments_are(device):
    x, begins = jnp.asarray(X[0]), np.zeros(37, bool)
    begins[[5, 8]] = True
    offsets = np.array([0, 5, 8, 37])
    for f in (sfj.cumsum, sfj.softmax):
        ours = jax.jit(lambda x, reset: f(x, axis=1, reset=reset))(x, begins)
        assert same_bits(np.asarray(ours), np.asarray(f(x, axis=1, offsets=offsets)))
    assert same_bits(np.asarray(sfj.sum(x, 1, reset=begins)), np.asarray(sfj.sum(x, 1, offsets=offsets)))
    by_length = jax.jit(lambda x, lengths: sfj.sum(x, 1, lengths=lengths))(x, np.array([5, 3, 29], np.uint8))
    assert same_bits(np.asarray(by_length), np.asarray(sfj.sum(x, 1, offsets=offsets)))
    for call, error, sentence in [
            (lambda: jax.jit(lambda r: sfj.sum(x, 1, reset=r))(begins), TypeError, "reset is traced, and scanfold.jax.sum has as many results"),
            (lambda: sfj.sum(x, 1, offsets=offsets, reset=begins), TypeError, "offsets and reset say the same"),
            (lambda: sfj.cumsum(x, offsets=offsets), ValueError, "axis is needed: x has 2 dimensions"),
            (lambda: sfj.cumsum(x, 1, reset=begins[1:]), ValueError, "the axis has 37 elements, and each must be marked"),
            (lambda: sfj.cumsum(x, 1, offsets=[[0, 37]]), ValueError, "offsets have dtype int32 and 2 dimensions"),
            (lambda: jax.vmap(lambda o: sfj.sum(x, 1, offsets=o))(np.stack([offsets, offsets])), NotImplementedError, "offsets are mapped"),
            (lambda: sfj.linear_recurrence(.5, x, 1, offsets=offsets, initial=x), ValueError, r"broadcastable to \(3, 3\), one state a segment")]:
        with pytest.raises(error, match=sentence):
            call()
    if device == "cpu":  # on a device their values are not checked
        with pytest.raises(Exception, match="offsets"):
            jax.block_until_ready(sfj.cumsum(x, 1, offsets=[0, 9, 3, 37]))


def test_vmap_of_some(device):
    """A mask, a weight or a gate that is mapped, beside what is not; twice."""
    x, masks, weights = jnp.asarray(X), jnp.stack([jnp.asarray(M), ~jnp.asarray(M)]), jnp.stack([jnp.asarray(W), jnp.asarray(W) * 2])
    by_mask = jax.vmap(lambda m: sfj.sum(x, 2, mask=m))(masks)
    by_weight = jax.vmap(lambda w: sfj.layer_norm(x, weight=w))(weights)
    by_gate = jax.vmap(lambda a: sfj.linear_recurrence(a, x))(weights)
    twice = jax.vmap(jax.vmap(sfj.softmax, 1, 1))(x)
    for i in range(2):
        assert same_bits(np.asarray(by_mask[i]), np.asarray(sfj.sum(x, 2, mask=masks[i])))
        assert same_bits(np.asarray(by_weight[i]), np.asarray(sfj.layer_norm(x, weight=weights[i])))
        assert same_bits(np.asarray(by_gate[i]), np.asarray(sfj.linear_recurrence(weights[i], x)))
    assert same_bits(np.asarray(twice), np.asarray(sfj.softmax(x, 1)))


SHARDED = """
import jax, numpy as np, jax.numpy as jnp, scanfold.jax as sfj
from jax.sharding import Mesh, PartitionSpec as P
if hasattr(jax, "shard_map"):
    shard_map = jax.shard_map
else:
    from jax.experimental.shard_map import shard_map
mesh = Mesh(np.array(jax.devices()[:2]), ("i",))
x, w = jnp.asarray(np.random.default_rng(0).standard_normal((4, 9)), jnp.float32), jnp.arange(9.)
def norm(x, w): return sfj.layer_norm(sfj.cumsum(x, 1), weight=w)
there = jax.jit(shard_map(norm, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i")))
assert (there(x, w) == norm(x, w)).all()
def gradients(f): return jax.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(x, w)
for ours, expected in zip(gradients(there), gradients(norm)):
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
assert there(x, w).sharding.device_set == set(jax.devices()[:2])
assert jax.devices()[0].platform != "cpu" or len(jax.devices()) == 2
"""


def test_shard_map(device):
    """Over two devices made of one CPU, or over the first two GPUs, or over one if there is one. A process has its devices
    from its start."""
    environment = dict(os.environ, XLA_FLAGS="--xla_force_host_platform_device_count=2", JAX_PLATFORMS=device,
                       XLA_PYTHON_CLIENT_PREALLOCATE="false", PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.host_only("imports")
def test_an_older_jax_is_refused():
    """Before 0.5 there is no jax.ffi."""
    code = "import jax, jax.numpy\ndel jax.ffi\njax.__version__ = '0.4.38'\nimport scanfold.jax"
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)), capture_output=True, text=True, timeout=300)
    assert done.returncode and "which JAX has from 0.5 on; this is JAX 0.4.38. Outside of jax.jit" in done.stderr, done.stderr


def test_arguments(device):
    x = jnp.asarray(X)
    assert sfj.sum(jnp.arange(5, dtype=jnp.uint8)).dtype == jnp.uint32 and sfj.mean(jnp.arange(5)).dtype == jnp.float32
    assert same_bits(np.asarray(sfj.cumsum(x.at[0, 0, 0].set(jnp.nan), 2, skip_nan=True)[0, 0, :2]), np.array([0, X[0, 0, 1]], np.float32))
    assert float(sfj.cumsum(jnp.float32(3))) == 3 and float(jax.grad(sfj.cumprod)(jnp.float32(3))) == 1
    assert sfj.cumsum(jnp.zeros((0, 3)), 0).shape == (0, 3) and jax.grad(lambda x: sfj.sum(x))(jnp.zeros((0, 3))).shape == (0, 3)
    first, second = sfj.run("sum(x, 1), x[:, 0]", x=x[0])
    assert first.shape == second.shape == (3,)


def test_refusals(device):
    x = jnp.asarray(X)
    for call, error, sentence in [
            (lambda: sfj.cumsum(x), ValueError, "axis is needed: x has 3 dimensions"),
            (lambda: sfj.cumsum(x, 3), ValueError, "axis is 3; for an x of 3 dimensions it must be -3 to 2"),
            (lambda: sfj.cumsum(x, 2, out=x), TypeError, "scanfold.jax.cumsum has no out"),
            (lambda: sfj.cumsum(x, 2, mask=x), TypeError, "mask has dtype float32"),
            (lambda: sfj.cumsum(x, 2, mask=M[:3]), ValueError, "mask"),
            (lambda: sfj.run("sum(x)", y=x), TypeError, "x, y: not given. The inputs are x"),
            (lambda: jax.grad(lambda x: sfj.cumvar(x[0, 0])[3])(x), NotImplementedError, "no derivative of cumvar"),
            (lambda: jax.grad(lambda x: sfj.run("sum(x[0])", x=x))(x), NotImplementedError, "neither differentiates nor maps x.0."),
            (lambda: jax.grad(lambda x: sfj.run("sum(x, skip_nan=True)", x=x))(x), NotImplementedError, "the option skip_nan"),
            (lambda: sfj.run("argmax(x[0])", x=x), TypeError, "is int64, which JAX has with jax_enable_x64 only: write .astype.i32."),
            (lambda: jax.jit(scanfold.cumsum)(x[0, 0]), TypeError, "scanfold.jax.cumsum")]:
        with pytest.raises(error, match=sentence):
            call()


@pytest.mark.host_only("reads files")
def test_an_old_jax_is_refused(monkeypatch):
    monkeypatch.delattr(jax, "ffi")
    path = os.path.join(os.path.dirname(scanfold.__file__), "_jax_primitive.py")
    found = importlib.util.spec_from_file_location("scanfold._jax_primitive_again", path)
    with pytest.raises(ImportError, match="jax.ffi, which JAX has from 0.5 on; this is JAX"):
        found.loader.exec_module(importlib.util.module_from_spec(found))


LAYOUT = """
#include "%s/_xla.h"
#include "xla/ffi/api/c_api.h"
#define SAME(ours, member, theirs, name) _Static_assert(offsetof(ours, member) == offsetof(theirs, name), #theirs "." #name)
SAME(xla_call, api, XLA_FFI_CallFrame, api); SAME(xla_call, context, XLA_FFI_CallFrame, ctx); SAME(xla_call, stage, XLA_FFI_CallFrame, stage);
SAME(xla_call, arguments, XLA_FFI_CallFrame, args); SAME(xla_call, results, XLA_FFI_CallFrame, rets);
SAME(xla_call, attributes, XLA_FFI_CallFrame, attrs); SAME(xla_list, item, XLA_FFI_Args, args); SAME(xla_list, item, XLA_FFI_Rets, rets);
SAME(xla_attributes, name, XLA_FFI_Attrs, names); SAME(xla_attributes, item, XLA_FFI_Attrs, attrs);
SAME(xla_buffer, dtype, XLA_FFI_Buffer, dtype); SAME(xla_buffer, data, XLA_FFI_Buffer, data); SAME(xla_buffer, shape, XLA_FFI_Buffer, dims);
SAME(xla_api, version, XLA_FFI_Api, api_version); SAME(xla_api, error_create, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(xla_api, stream_get, XLA_FFI_Api, XLA_FFI_Stream_Get); SAME(xla_metadata, traits, XLA_FFI_Metadata, traits);
SAME(xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata); SAME(xla_error_args, code, XLA_FFI_Error_Create_Args, errc);
SAME(xla_stream_args, stream, XLA_FFI_Stream_Get_Args, stream); SAME(xla_bytes, length, XLA_FFI_ByteSpan, len);
#if XLA_FFI_API_MINOR > 1
SAME(xla_api, ordinal_get, XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get);
SAME(xla_ordinal_args, ordinal, XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
#endif
_Static_assert(XLA_EXECUTE == XLA_FFI_ExecutionStage_EXECUTE && XLA_STRING == XLA_FFI_AttrType_STRING && XLA_BUFFER == XLA_FFI_ArgType_BUFFER, "");
_Static_assert(XLA_METADATA == XLA_FFI_Extension_Metadata && XLA_MAJOR == XLA_FFI_API_MAJOR && XLA_FFI_DataType_BF16 == 16, "");
"""


@pytest.mark.host_only("reads files")
def test_layouts_are_those_of_the_header(tmp_path):
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "python", "scanfold")
    compiler = shutil.which("cc")
    if compiler is None or not os.path.exists(os.path.join(folder, "_xla.h")):
        pytest.skip("no C compiler, or no sources")
    source = tmp_path / "layout.c"
    source.write_text(LAYOUT % os.path.abspath(folder))
    done = subprocess.run([compiler, "-std=c11", "-w", "-fsyntax-only", "-I", jax.ffi.include_dir(), str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
