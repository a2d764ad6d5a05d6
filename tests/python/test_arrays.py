"""The functions on NumPy arrays: any shape, strides, dtype and option."""
import copy
import itertools
import pickle
import re
import threading

import numpy as np
import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oracle
import scanfold

shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=9)


@st.composite
def layouts(draw, dtype, here):
    """A view of an array: transposed, strided, flipped or broadcast."""
    values = None
    if np.dtype(dtype).kind in "if":
        finite = {"allow_nan": False, "allow_infinity": False}
        values = hnp.from_dtype(np.dtype(dtype), min_value=-9, max_value=9, **finite)
    x = here.array(draw(hnp.arrays(dtype, shapes, elements=values)))
    x = x.transpose(draw(st.permutations(range(x.ndim))))
    x = x[tuple(slice(None, None, draw(st.sampled_from([1, 1, -1, 2, -3]))) for _ in range(x.ndim))]
    if draw(st.booleans()) and x.ndim < 4:
        x = here.space.broadcast_to(x, (draw(st.integers(1, 3)),) + x.shape)
    return x


@given(st.data(), st.sampled_from(oracle.INTEGERS + ["bool"]), st.sampled_from(sorted(oracle.OPS)))
def test_integers_are_numpys(device, data, dtype, op):
    here = oracle.Here(device)
    x = data.draw(layouts(dtype, here))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    reverse, exclusive = data.draw(st.booleans()), data.draw(st.booleans())
    mask = data.draw(st.none() | hnp.arrays(bool, x.shape[-1:]))
    scan, fold, _ = oracle.OPS[op]
    options = {"reverse": reverse, "exclusive": exclusive}
    given = {"mask": None if mask is None else here.array(mask)}
    y = scan(x, axis, **options, **given)
    wide = np.dtype(dtype)
    if op in ("sum", "prod"):
        wide = np.dtype("uint64") if wide.kind == "u" else np.dtype("int64")
    assert y.dtype == wide
    if x.shape[axis]:
        total, x = here.host(fold(x, axis, keepdims=True, **given)), here.host(x)
        expected = oracle.scan(x, op, axis, mask=mask, dtype=wide, **options)
        assert oracle.same_bits(here.host(y), expected)
        assert oracle.same_bits(total, np.take(oracle.scan(x, op, axis, mask=mask, dtype=wide), [-1], axis))


@given(st.data(), st.sampled_from(oracle.REALS), st.sampled_from(sorted(oracle.OPS)))
def test_reals_are_the_references(device, data, dtype, op):
    here = oracle.Here(device)
    x = data.draw(layouts(dtype, here))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    options = {"reverse": data.draw(st.booleans()), "initial": data.draw(st.sampled_from([None, 0.5, -3]))}
    scan, fold, _ = oracle.OPS[op]
    there = here.host(x)
    with scanfold.using(backend="ref"):
        expected = scan(there, axis, **options)
        total = fold(there, axis, **options) if x.shape[axis] else None
    assert oracle.same_bits(here.host(scan(x, axis, **options)), expected)
    if total is not None:
        assert oracle.same_bits(here.host(fold(x, axis, **options)), total)
        end = 0 if options["reverse"] else -1
        assert oracle.same_bits(np.take(expected, end, axis), total)


@pytest.mark.parametrize("dtype", oracle.REALS)
@pytest.mark.parametrize("n", [1, 2, 1000, 4097])
def test_error_stays_below_its_bound(device, dtype, n):
    here = oracle.Here(device)
    x = np.random.default_rng(n).standard_normal((3, n)).astype(dtype)
    exact = np.cumsum(x.astype(np.longdouble), axis=1)
    y = here.host(scanfold.cumsum(here.array(x), 1))
    assert (np.abs(y - exact) <= oracle.error_bound(x, 1, dtype)).all()


@pytest.mark.host_only("what a CPU's thread remembers")
def test_short_rows_in_turn():
    """What a thread remembers of short rows belongs to one length, direction and type: more of them than it remembers, in turn and again."""
    rng = np.random.default_rng(1)
    rows = [rng.standard_normal((5, n)).astype(dtype) for n in range(1, 18) for dtype in ("float32", "float64")]
    with scanfold.using(backend="ref"):
        expected = [(scanfold.cumsum(x, 1), scanfold.cumsum(x, 1, reverse=True), scanfold.cumsum(x, 0)) for x in rows]
    for _ in range(2):
        for x, (forward, backward, down) in zip(rows, expected):
            for _ in range(2):
                assert oracle.same_bits(scanfold.cumsum(x, 1), forward) and oracle.same_bits(scanfold.cumsum(x, 1, reverse=True), backward)
                assert oracle.same_bits(scanfold.cumsum(x, 0), down)


def test_axes_of_a_fold(device):
    here = oracle.Here(device)
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    there = here.array(x)
    for axes in [None, 0, -1, (0,), (1, 3), (3, 1), (-2, 0), (0, 1, 2, 3), ()]:
        for keep in (False, True):
            y = here.host(scanfold.sum(there, axes, keepdims=keep))
            assert oracle.same_bits(y, np.asarray(x.sum(axes, keepdims=keep)))
            assert oracle.same_bits(here.host(scanfold.sum(there, dim=axes, keepdim=keep)), y)
    y = here.host(scanfold.max(there.astype(np.float32), (0, 2)))
    assert oracle.same_bits(y, x.max((0, 2)).astype(np.float32))


@pytest.mark.host_only("refused before x is looked at")
def test_two_names_of_one_argument():
    with pytest.raises(TypeError, match="axis and dim"):
        scanfold.cumsum(np.ones((2, 2)), 0, dim=0)
    with pytest.raises(TypeError, match="keepdims and keepdim"):
        scanfold.sum(np.ones((2, 2)), keepdims=True, keepdim=True)


@pytest.mark.host_only("NumPy's names of dtypes")
def test_dtype():
    x = np.full(1000, 0.1, np.float32)
    assert scanfold.cumsum(x, dtype=np.float64).dtype == np.float64
    assert scanfold.sum(x, dtype="f8") == scanfold.sum(x.astype(np.float64))
    assert scanfold.sum(np.ones(300, np.uint8), dtype=np.uint8) == 300 % 256
    assert scanfold.sum(np.ones(3, np.int32), dtype=float).dtype == np.float64
    assert scanfold.sum(np.ones(3, bool), dtype=bool).dtype == bool
    for wrong in (np.complex64, "no such dtype", object):
        with pytest.raises(TypeError):
            scanfold.cumsum(x, dtype=wrong)
    with pytest.raises(TypeError):  # the library's own refusal
        scanfold.cumsum(x, dtype=np.int32)


@pytest.mark.host_only("NumPy's bfloat16")
def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes, which gives NumPy bfloat16, is not installed")
    x = np.arange(100).astype(ml_dtypes.bfloat16)
    y = scanfold.cumsum(x)
    assert y.dtype == x.dtype
    assert (y == np.cumsum(x.astype(np.float32)).astype(ml_dtypes.bfloat16)).all()


@pytest.mark.host_only("NumPy's views as out")
def test_out():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.full((3, 8), -1, np.float32)
    assert scanfold.cumsum(x, 1, out=y[:, ::2]) is not None
    assert (y[:, ::2] == np.cumsum(x, 1)).all() and (y[:, 1::2] == -1).all()
    z = x.copy()
    assert scanfold.cumsum(z, 0, out=z) is z
    assert (z == np.cumsum(x, 0)).all()
    wide = np.empty((3, 4), np.float64)
    assert scanfold.cumsum(x, 1, out=wide) is wide and (wide == np.cumsum(x, 1)).all()
    for bad, why in [(np.empty((4, 3), np.float32), "shape"), (np.broadcast_to(np.float32(0), (3, 4)), "read-only")]:
        with pytest.raises(ValueError, match=why):
            scanfold.cumsum(x, 1, out=bad)
    locked = np.empty_like(x)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        scanfold.cumsum(x, 1, out=locked)
    with pytest.raises(ValueError, match="out"):
        scanfold.cumsum(x, 1, out=wide, dtype=np.float32)
    with pytest.raises(ValueError):  # overlaps, but is not the same view
        scanfold.cumsum(z, 1, out=z[::-1])


@pytest.mark.host_only("NumPy's views")
def test_read_only_input_and_other_views():
    x = np.arange(6.0)
    x.flags.writeable = False
    assert (scanfold.cumsum(x) == np.cumsum(x)).all()
    fields = np.zeros(5, dtype=[("a", np.int8), ("b", np.float64)])  # strides that are not whole elements
    fields["b"] = np.arange(5)
    assert (scanfold.cumsum(fields["b"]) == np.cumsum(np.arange(5.0))).all()
    assert scanfold.cumsum(np.float32(3)).shape == ()
    assert scanfold.sum(np.array(7)) == 7


def test_empty(device):
    empty = oracle.Here(device).space.empty
    assert scanfold.cumsum(empty((0, 3)), 0).shape == (0, 3)
    assert scanfold.sum(empty((0, 3)), 0).tolist() == [0, 0, 0]
    assert scanfold.prod(empty((2, 0)), 1).tolist() == [1, 1]
    assert scanfold.max(empty((2, 0)), 1, initial=-1.0).tolist() == [-1, -1]
    with pytest.raises(ValueError):
        scanfold.max(empty((2, 0)), 1)


@pytest.mark.host_only("the answers are NumPy's")
def test_empty_as_numpy_has_it():
    """Every shape of up to three dimensions with a length of 0: what is refused, and the results of
    the rest."""
    def told(call):
        try:
            y = np.asarray(call())
            return y.shape, y.dtype, y.tolist()
        except ValueError:
            return "refused"
    scans = [(scanfold.cumsum, np.cumsum), (scanfold.cumprod, np.cumprod),
             (scanfold.cummax, np.maximum.accumulate), (scanfold.cummin, np.minimum.accumulate)]
    folds = [(scanfold.sum, np.sum), (scanfold.prod, np.prod), (scanfold.max, np.max),
             (scanfold.min, np.min)]
    options = [{}, {"keepdims": True}, {"initial": 1}, {"keepdims": True, "initial": 1}]
    shapes = [shape for n in (1, 2, 3) for shape in itertools.product((0, 1, 2), repeat=n)]
    for shape, dtype in itertools.product(shapes, (np.float32, np.uint8, bool)):
        if 0 not in shape:
            continue
        x, axes = np.empty(shape, dtype), range(len(shape))
        for (ours, numpys), axis in itertools.product(scans, axes):
            right = told(lambda: numpys(x, axis))
            assert told(lambda: ours(x, axis)) == right, (ours.__name__, shape, dtype, axis)
        some = [None, ()]
        for n in axes:
            some += itertools.combinations(axes, n + 1)
        for (ours, numpys), axis, given in itertools.product(folds, some, options):
            right = told(lambda: numpys(x, axis, **given))
            case = ours.__name__, shape, dtype, axis, given
            assert told(lambda: ours(x, axis, **given)) == right, case


@pytest.mark.host_only("the answers are NumPy's")
def test_a_scan_has_the_memory_order_of_its_input():
    for dtype in (np.float32, np.int8):
        x = np.asfortranarray(np.ones((3, 4, 5), dtype))
        turned = scanfold.cummax(x.transpose(1, 0, 2), 0).transpose(1, 0, 2)
        for y in (scanfold.cumsum(x, 1), turned):
            assert y.flags.f_contiguous and not y.flags.c_contiguous


@pytest.mark.host_only("as_strided of NumPy's memory")
def test_huge_strides():
    memory = np.random.default_rng(3).integers(0, 256, 1 << 22, np.uint8)
    big = np.lib.stride_tricks.as_strided(memory, (3, 5), (1 << 20, 7))
    values = np.array([[memory[(i << 20) + 7 * j] for j in range(5)] for i in range(3)])
    assert (scanfold.cumsum(big, 0) == np.cumsum(values, 0, np.uint64)).all()
    assert (scanfold.cumsum(big[::-1, ::-1], 1) == np.cumsum(values[::-1, ::-1], 1, np.uint64)).all()
    still = np.lib.stride_tricks.as_strided(np.ones(1, np.int32), (1000, 1000), (0, 0))
    assert scanfold.sum(still) == 10**6


@pytest.mark.host_only("how a number is read")
def test_initial():
    x = np.array([1, 2, 3], np.uint64)
    assert scanfold.cumsum(x, initial=2**63 + 5)[0] == 2**63 + 6
    assert scanfold.cumsum(x.astype(np.int32), initial=np.int64(4)).tolist() == [5, 7, 10]
    assert scanfold.cumsum(np.array([1.5]), initial=np.array(2)).tolist() == [3.5]
    for wrong in (2**64, -2**63 - 1, 0.5):
        with pytest.raises(ValueError):
            scanfold.cumsum(x.astype(np.int64), initial=wrong)
    with pytest.raises(TypeError, match="initial"):
        scanfold.cumsum(x, initial="1")


@pytest.mark.host_only("how arguments are refused")
def test_errors_say_what_is_wrong():
    for bad in ([1, 2, 3], "x", None, object()):
        with pytest.raises(TypeError, match="x is"):
            scanfold.cumsum(bad)
    for dtype in (np.complex128, "M8[s]", "S3", ">f8"):
        with pytest.raises(TypeError, match="x has dtype"):
            scanfold.cumsum(np.zeros(3, dtype))
    with pytest.raises(ValueError, match="axis is needed"):
        scanfold.cumsum(np.ones((2, 2)))
    for call, axis in itertools.product((scanfold.cumsum, scanfold.sum), (2, -3, 2**40, 2**70, -2**70)):
        with pytest.raises(ValueError, match=f"axis is {axis}; "):
            call(np.ones((2, 2)), axis)
    for call, axis in [(scanfold.cumsum, 0.5), (scanfold.sum, 0.5), (scanfold.cumsum, "0"), (scanfold.cumsum, (0, 1))]:
        with pytest.raises(TypeError, match=re.escape(f"axis is {axis!r}: a whole number")):
            call(np.ones((2, 2)), axis)
    with pytest.raises(TypeError, match="axis is 'a': a whole number"):
        scanfold.sum(np.ones((2, 2)), "a")
    with pytest.raises(ValueError, match="axes"):
        scanfold.sum(np.ones((2, 2)), (0, 0))
    with pytest.raises(ValueError, match="mask"):
        scanfold.cumsum(np.ones((2, 2)), 0, mask=np.ones((3, 3), bool))
    with pytest.raises(TypeError, match="mask"):
        scanfold.cumsum(np.ones((2, 2)), 0, mask=np.ones((2, 2)))
    with pytest.raises(TypeError, match="^sum of f32 into i32 .* can be f16, bf16, f32 or f64$"):
        scanfold.sum(np.ones(3, np.float32), dtype=np.int32)


@pytest.mark.host_only("a CPU's instruction sets and threads")
def test_using():
    x = np.random.default_rng(0).standard_normal(10000).astype(np.float32)
    expected = scanfold.cumsum(x)
    for isa in scanfold.info()["isas"]:
        for threads in (1, 3):
            with scanfold.using(isa=isa, threads=threads):
                assert scanfold.info()["isa"] == isa and scanfold.info()["threads"] == threads
                with scanfold.using(backend="ref"):
                    assert scanfold.info()["isa"] == "ref"
                assert oracle.same_bits(scanfold.cumsum(x), expected)
    for wrong in ({"isa": "abacus"}, {"backend": "gpu"}):
        with pytest.raises(ValueError):
            scanfold.using(**wrong)


@pytest.mark.host_only("a CPU's threads")
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy,
                                    lambda u: pickle.loads(pickle.dumps(u))],
                         ids=["copy", "deepcopy", "pickle"])
def test_using_is_copied_by_what_was_asked(copied):
    with copied(scanfold.using(threads=3)):
        assert scanfold.info()["threads"] == 3
    with copied(scanfold.using(backend="ref")):
        assert scanfold.info()["isa"] == "ref"


@pytest.mark.host_only("a CPU's threads")
def test_threads_share_the_library():
    x = np.random.default_rng(1).standard_normal((50, 4001)).astype(np.float32)
    expected = scanfold.cumsum(x, 1)
    wrong = []

    def work():
        for _ in range(20):
            if not oracle.same_bits(scanfold.cumsum(x, 1), expected) or not oracle.same_bits(scanfold.sum(x, 1), expected[:, -1]):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.host_only("a CPU's long call")
def test_the_gil_is_released():
    """Another thread can run during a long call."""
    x = np.ones((400, 20000), np.float64)
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
    thread = threading.Thread(target=count)
    with scanfold.using(backend="ref"):
        thread.start()
        before = counted[0]
        scanfold.cumsum(x, 1)
        during = counted[0] - before
    stop.set()
    thread.join()
    assert during > 1000
