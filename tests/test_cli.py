"""The command line on .npy files, against NumPy and against the order's rule written out in rule.py.

    SCANFOLD_CLI=build/cli/scanfold python -m pytest tests/test_cli.py

The binary's path comes from SCANFOLD_CLI; SCANFOLD_FUZZ_NPY, if set, names the parser's fuzz driver.
"""
import io
import itertools
import os
import stat
import struct
import subprocess
import time

import numpy as np
import pytest

from cli_tools import (CLI, fold_axes, needs_cli, noise, npy_of, ok, on_a_terminal, refused, run,
                       same_bits, scan_axis)

FUZZ = os.environ.get("SCANFOLD_FUZZ_NPY", "")
pytestmark = needs_cli


def through(tmp_path, command, x, *arguments):
    """x through a command; the result. Asserts that nothing else is left in the directory."""
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, x)
    before = source.read_bytes()
    ok(command, source, "-o", target, *arguments)
    assert source.read_bytes() == before
    left = set(os.listdir(tmp_path)) - {"in.npy", "out.npy", "mask.npy", "offsets.npy"}
    assert not left, left
    result = np.load(target)
    assert result.flags.c_contiguous
    return result


INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
SLABS = [(), ("--slab", "1K")]


# ---------------------------------------------------------------------------------------------------------------
# Values
# ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_as_numpy(tmp_path, dtype):
    x = noise((5, 7, 3), dtype)
    for axis in (0, 1, -1):
        assert same_bits(through(tmp_path, "scan", x, "--axis", axis), np.cumsum(x, axis=axis))
        wide = np.cumsum(x).dtype
        assert same_bits(through(tmp_path, "sum", x, "--axis", axis), np.add.reduce(x, axis=axis, dtype=wide))
        assert same_bits(through(tmp_path, "max", x, "--axis", axis), np.max(x, axis=axis))
        assert same_bits(through(tmp_path, "min", x, "--axis", axis), np.min(x, axis=axis))
        assert same_bits(through(tmp_path, "scan", x, "--axis", axis, "--op", "max"),
                         np.maximum.accumulate(x, axis=axis))
    assert same_bits(through(tmp_path, "scan", x, "--op", "prod"), np.cumprod(x, axis=-1))
    assert same_bits(through(tmp_path, "prod", x, "--axis", "0,2", "--keepdim"), np.prod(x, axis=(0, 2), keepdims=True))
    assert same_bits(through(tmp_path, "scan", x, "--dtype", "i16"), np.cumsum(x, axis=-1, dtype="i2"))


def test_products_keep_their_exponents(tmp_path):
    x = np.array([1e30] * 2048 + [1e-30] * 2048, dtype=np.float64).reshape(64, 64)
    for slab in SLABS:
        assert abs(through(tmp_path, "prod", x, *slab) - 1) < 1e-9


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("slab", SLABS)
def test_floats_by_the_rule(tmp_path, dtype, slab):
    x = noise((6, 37, 5), dtype)
    for axis in range(3):
        for reverse, exclusive in itertools.product((False, True), repeat=2):
            flags = ["--reverse"] * reverse + ["--exclusive"] * exclusive
            got = through(tmp_path, "scan", x, "--axis", axis, *flags, *slab)
            assert same_bits(got, scan_axis(x, axis, reverse=reverse, exclusive=exclusive))
    for axes in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        for reverse in (False, True):
            flags = ["--reverse"] * reverse + ["--axis", ",".join(map(str, axes))]
            got = through(tmp_path, "sum", x, *flags, *slab)
            assert same_bits(got, fold_axes(x, axes, reverse=reverse))
    assert same_bits(through(tmp_path, "sum", x, *slab), fold_axes(x, (0, 1, 2)))


def test_golden_line(tmp_path):
    """Three elements of which the order decides the last bit."""
    x = np.array([1, 2**-24, 2**-24], "f4")
    assert through(tmp_path, "sum", x) == np.float32(1)
    assert through(tmp_path, "sum", x, "--reverse") == np.float32(1 + 2**-23)


def test_half_is_summed_in_single(tmp_path):
    x = noise((3, 300), "f2")
    assert same_bits(through(tmp_path, "scan", x), scan_axis(x, 1, acc="f4"))
    assert same_bits(through(tmp_path, "sum", x, "--axis", 1), fold_axes(x, (1,), acc="f4"))
    assert same_bits(through(tmp_path, "sum", x, "--slab", "1K"), fold_axes(x, (0, 1), acc="f4"))


def test_wider_types(tmp_path):
    x = noise((4, 900), "f4")
    assert same_bits(through(tmp_path, "scan", x, "--dtype", "f64"), scan_axis(x, 1, acc="f8", out="f8"))
    assert same_bits(through(tmp_path, "scan", x, "--acc", "f64"), scan_axis(x, 1, acc="f8"))
    for slab in SLABS:
        assert same_bits(through(tmp_path, "sum", x, "--acc", "float64", *slab), fold_axes(x, (0, 1), acc="f8"))
        assert same_bits(through(tmp_path, "sum", x.astype("f8"), "--dtype", "f32", *slab),
                         fold_axes(x.astype("f8"), (0, 1), acc="f8", out="f4"))
    i = noise((900,), "i4")
    assert same_bits(through(tmp_path, "sum", i, "--dtype", "f32", "--slab", "1K"),
                     fold_axes(i, (0,), acc="f4", out="f4"))
    assert same_bits(through(tmp_path, "sum", i, "--dtype", "i32", "--acc", "i64", "--slab", "1K"),
                     np.add.reduce(i, dtype="i4")[()].reshape(()))


def to_bf16(x):
    bits = x.astype("f4").view("u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")


def from_bf16(x):
    return (x.astype("u4") << 16).view("f4")


@pytest.mark.parametrize("descr", ["<V2", "|V2", "<u2"])
def test_bfloat16(tmp_path, descr):
    x = to_bf16(noise((3, 50), "f4"))
    (tmp_path / "in.npy").write_bytes(npy_bytes(descr, x.shape, x.tobytes()))
    ok("scan", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--view", "bf16")
    assert b"'<V2'" in (tmp_path / "out.npy").read_bytes()[:128]
    got = np.load(tmp_path / "out.npy").view("u2")
    assert same_bits(got, to_bf16(scan_axis(from_bf16(x), 1)))
    ok("sum", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--view", "bf16", "--dtype", "f32")
    assert same_bits(np.load(tmp_path / "out.npy"), fold_axes(from_bf16(x), (0, 1)))
    if "V" in descr:
        refused("sum", tmp_path / "in.npy", says="--view bf16")
    refused("sum", tmp_path / "in.npy", "--view", "f32", says="elements of 2 bytes")


@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("mask_shape", [(6, 40), (40,), (6, 1), (1, 40), (), (1,)])
def test_mask(tmp_path, mask_shape, slab):
    x, mask = noise((6, 40), "f4"), noise(mask_shape, "?", 3)
    x[0, 3] = np.nan  # masked out or not: a selection, no multiplication
    for order, kind in (("C", "?"), ("F", "?"), ("C", "u1")):
        np.save(tmp_path / "mask.npy", np.asarray(mask, kind, order=order))
        for axis, reverse in itertools.product((0, 1), (False, True)):
            flags = ["--axis", axis, "--mask", tmp_path / "mask.npy", *(["--reverse"] * reverse), *slab]
            got = through(tmp_path, "scan", x, *flags)
            np.testing.assert_array_equal(got, scan_axis(x, axis, reverse=reverse, mask=mask))
            got = through(tmp_path, "sum", x, *flags)
            np.testing.assert_array_equal(got, fold_axes(x, (axis,), reverse=reverse, mask=mask))
        got = through(tmp_path, "sum", x, "--mask", tmp_path / "mask.npy", *slab)
        np.testing.assert_array_equal(got, fold_axes(x, (0, 1), mask=mask))
        got = through(tmp_path, "max", x, "--mask", tmp_path / "mask.npy", "--axis", 0, *slab)
        np.testing.assert_array_equal(got, np.max(np.where(mask, x, -np.inf), axis=0))


@pytest.mark.parametrize("slab", SLABS)
def test_skip_nan(tmp_path, slab):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 300)).astype("f4")
    x[rng.random(x.shape) < 0.2] = np.nan
    x[7] = np.nan
    kept = np.where(np.isnan(x), np.float32(0), x)
    assert same_bits(through(tmp_path, "scan", x, "--skip-nan", "--axis", "1", *slab), scan_axis(kept, 1))
    assert same_bits(through(tmp_path, "sum", x, "--skip-nan", *slab), fold_axes(kept, (0, 1)))
    assert through(tmp_path, "max", x, "--skip-nan", *slab) == np.nanmax(x)
    infinite = x.copy()
    infinite[0, :2] = np.inf, -np.inf
    assert np.isnan(through(tmp_path, "sum", infinite, "--skip-nan", *slab))


@pytest.mark.parametrize("slab", SLABS)
def test_initial(tmp_path, slab):
    x = noise((3, 2000), "f4")
    assert same_bits(through(tmp_path, "scan", x[:, :50], "--initial", "0.1"), scan_axis(x[:, :50], 1, initial=0.1))
    assert same_bits(through(tmp_path, "scan", x[:, :50], "--initial", "-3", "--exclusive"),
                     scan_axis(x[:, :50], 1, initial=-3, exclusive=True))
    assert same_bits(through(tmp_path, "sum", x, "--initial", "1e3", *slab), fold_axes(x, (0, 1), initial=1e3))
    i = noise((3, 5), "u8")
    assert through(tmp_path, "sum", i, "--initial", 2**64 - 1) == (int(np.add.reduce(i.ravel())) - 1) % 2**64
    assert through(tmp_path, "max", np.zeros((0,), "f4"), "--initial", "7") == 7


def test_slabs_of_many_shapes(tmp_path):
    """Every way a box can be cut gives the bits of one call."""
    for shape in [(3000,), (2, 3000), (3000, 2), (70, 90), (4, 30, 50), (30, 4, 50), (2, 3, 4, 100), (1, 5000, 1)]:
        x = noise(shape, "f4", len(shape))
        for order in "CF":
            np.save(tmp_path / "in.npy", np.asarray(x, order=order))
            for axis in range(len(shape)):
                for command in ("scan", "sum"):
                    results = []
                    for slab in ("1G", "3000", "200", "1"):
                        ok(command, tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--axis", axis, "--slab", slab)
                        results.append((tmp_path / "out.npy").read_bytes())
                    assert len(set(results)) == 1, (shape, order, axis, command)


def test_threads_change_nothing(tmp_path):
    x = noise((40, 5000), "f4")
    for command, axis in itertools.product(("scan", "sum"), (0, 1)):
        assert len({through(tmp_path, command, x, "--axis", axis, "--threads", n).tobytes() for n in (1, 2, 5)}) == 1


def test_empty_and_scalar(tmp_path):
    for shape in [(0,), (3, 0), (0, 3)]:
        x = np.zeros(shape, "f4")
        for axis in range(len(shape)):
            assert through(tmp_path, "scan", x, "--axis", axis).shape == shape
            assert same_bits(through(tmp_path, "sum", x, "--axis", axis), np.sum(x, axis=axis))
    scalar = np.array(3.5)
    assert same_bits(through(tmp_path, "scan", scalar), scalar)
    assert same_bits(through(tmp_path, "sum", scalar), scalar)
    np.save(tmp_path / "in.npy", np.zeros((2, 0), "f4"))
    refused("max", tmp_path / "in.npy", "-o", tmp_path / "none.npy", "--axis", 1)
    assert not (tmp_path / "none.npy").exists()


def test_many_dimensions(tmp_path):
    x = noise((1,) * 20 + (3, 1, 4) + (1,) * 9, "i8")
    assert same_bits(through(tmp_path, "scan", x, "--axis", 20), np.cumsum(x, axis=20))
    assert same_bits(through(tmp_path, "sum", x, "--axis", "20,22"), np.sum(x, axis=(20, 22)))


def test_a_single_value_is_printed(tmp_path):
    path = tmp_path / "in.npy"
    for x, text in [(np.arange(10), "45"), (np.array([0.1, 0.2]), repr(0.1 + 0.2)), (np.array([0.1], "f4"), "0.1"),
                    (np.array([1.5], "f2"), "1.5"), (np.array([200], "u1"), "200"), (np.array([np.nan]), "nan")]:
        np.save(path, x)
        assert ok("sum", path).decode().strip().lstrip("-") == text
    np.save(path, np.array([-5, -7], "i1"))
    assert ok("min", path) == b"-7\n"
    np.save(path, np.array([True, False]))
    assert ok("max", path) == b"True\n"
    np.save(path, np.zeros((2, 2)))
    refused("sum", path, "--axis", 0, status=2, says="-o")


# ---------------------------------------------------------------------------------------------------------------
# Layouts and ways in and out
# ---------------------------------------------------------------------------------------------------------------

def npy_bytes(descr, shape, data=b"", version=(1, 0), fortran=False, header=None, length=None):
    if header is None:
        header = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)}) + "\n"
    header = header.encode("utf-8") if isinstance(header, str) else header
    if version[0] == 1:
        size = struct.pack("<H", len(header) if length is None else length)
    else:
        size = struct.pack("<I", len(header) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + size + header + data


@pytest.mark.parametrize("slab", SLABS)
def test_fortran_order(tmp_path, slab):
    x = noise((7, 11, 13), "f4")
    f = np.asfortranarray(x)
    assert not f.flags.c_contiguous
    for axis in range(3):
        assert same_bits(through(tmp_path, "scan", f, "--axis", axis, *slab), scan_axis(x, axis))
        assert same_bits(through(tmp_path, "sum", f, "--axis", axis, *slab), fold_axes(x, (axis,)))
    assert same_bits(through(tmp_path, "sum", f, *slab), fold_axes(x, (0, 1, 2)))
    assert same_bits(through(tmp_path, "sum", f, "--axis", "0,1", *slab), fold_axes(x, (0, 1)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2", "i4", "i8", "u2", "u4", "u8"])
def test_big_endian(tmp_path, dtype):
    x = noise((7, 9), dtype)
    big = x.astype(">" + dtype)
    for order in "CF":
        assert same_bits(through(tmp_path, "scan", np.asarray(big, order=order), "--axis", 0),
                         through(tmp_path, "scan", x, "--axis", 0))
    assert same_bits(through(tmp_path, "max", big), np.max(x).reshape(()))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(tmp_path, version):
    x = noise((4, 5), "f4")
    with open(tmp_path / "in.npy", "wb") as file:
        np.lib.format.write_array(file, x, version=version)
    ok("scan", tmp_path / "in.npy", "-o", tmp_path / "out.npy")
    assert same_bits(np.load(tmp_path / "out.npy"), scan_axis(x, 1))


@pytest.mark.parametrize("header", [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
    "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"f4\"}",
    "  {'shape': (2L, 3L,), 'descr': '=f4', 'fortran_order': False,}  \n ",
])
def test_headers_numpy_reads_too(tmp_path, header):
    """Any spacing, quotes and order; data at any alignment."""
    x = noise((2, 3), "f4")
    for pad in range(5):
        (tmp_path / "in.npy").write_bytes(npy_bytes("", (), x.tobytes(), header=header + " " * pad))
        ok("scan", tmp_path / "in.npy", "-o", tmp_path / "out.npy")
        assert same_bits(np.load(tmp_path / "out.npy"), scan_axis(x, 1))


def test_trailing_bytes_are_ignored(tmp_path):
    x = noise((2, 3), "f4")
    (tmp_path / "in.npy").write_bytes(npy_bytes("<f4", x.shape, x.tobytes() + b"more"))
    assert same_bits(np.load(tmp_path / "in.npy"), x)
    ok("scan", tmp_path / "in.npy", "-o", tmp_path / "out.npy")
    assert same_bits(np.load(tmp_path / "out.npy"), scan_axis(x, 1))


def test_output_can_be_mapped_and_is_like_numpys(tmp_path):
    x = noise((8, 9), "f8")
    got = through(tmp_path, "scan", x)
    assert same_bits(np.asarray(np.load(tmp_path / "out.npy", mmap_mode="r")), got)
    with open(tmp_path / "out.npy", "rb") as file:
        assert np.lib.format.read_magic(file) == (1, 0)
        assert np.lib.format.read_array_header_1_0(file) == ((8, 9), False, np.dtype("f8"))
        assert file.tell() % 64 == 0


def test_pipes(tmp_path):
    x = noise((40, 50), "f4")
    want = scan_axis(x, 1)
    assert same_bits(np.load(io.BytesIO(ok("scan", "-", "-o", "-", input=npy_of(x)))), want)
    assert same_bits(np.load(io.BytesIO(ok("scan", "-", "-o", "-", input=npy_of(x.astype(">f4"))))), want)
    big = noise((3000, 200), "i4")  # more than a pipe holds
    assert same_bits(np.load(io.BytesIO(ok("scan", "-", "-o", "-", input=npy_of(big)))), np.cumsum(big, axis=1))
    np.save(tmp_path / "in.npy", x)
    with open(tmp_path / "in.npy", "rb") as file:
        assert same_bits(np.load(io.BytesIO(ok("scan", "-", "-o", "-", stdin=file))), want)
    with open(tmp_path / "joined", "wb") as file:
        file.write(b"before" + npy_of(x))
    with open(tmp_path / "joined", "rb", buffering=0) as file:
        file.read(6)
        assert same_bits(np.load(io.BytesIO(ok("scan", "-", "-o", "-", stdin=file))), want)
    mask = noise((50,), "?")
    np.save(tmp_path / "mask.npy", mask)
    got = ok("scan", tmp_path / "in.npy", "-o", "-", "--mask", "-", input=npy_of(mask))
    assert same_bits(np.load(io.BytesIO(got)), scan_axis(x, 1, mask=mask))
    refused("scan", "-", "-o", "-", "--mask", "-", input=b"", status=2)
    os.mkfifo(tmp_path / "from")
    os.mkfifo(tmp_path / "to")
    done = subprocess.run(
        ["sh", "-c", 'cat in.npy > from & cat to > out.npy & "$0" scan from -o to; wait', CLI], cwd=tmp_path,
        capture_output=True)
    assert done.stderr == b""
    assert same_bits(np.load(tmp_path / "out.npy"), want)
    assert stat.S_ISFIFO(os.stat(tmp_path / "to").st_mode)


def shell(script, cwd):
    return subprocess.run(["sh", "-c", script, CLI], cwd=cwd, capture_output=True, timeout=60)


def test_a_stream_is_judged_by_its_beginning(tmp_path):
    """Only the data is read, and nothing after it: these streams never end."""
    for device in ("/dev/urandom", "/dev/zero"):
        refused("sum", device, says="is not a .npy file")
    x = noise((40, 50), "f4")
    np.save(tmp_path / "x.npy", x)
    endless = r"{ printf '\223NUMPY\2\0\377\377\377\377'; cat /dev/zero; }"
    done = shell(endless + ' | "$0" sum -', tmp_path)
    assert b"standard input has a header of 4294967295 bytes" in done.stderr
    done = shell("{ cat x.npy; cat /dev/zero; } | \"$0\" scan - -o -", tmp_path)
    assert same_bits(np.load(io.BytesIO(done.stdout)), scan_axis(x, 1))
    done = shell("cat x.npy x.npy | { \"$0\" max -; \"$0\" max -; }", tmp_path)
    assert done.stderr == b"" and len(done.stdout.split()) == 2 == 1 + len(set(done.stdout.split()))
    process = subprocess.Popen([CLI, "sum", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(b"no.")  # and nothing more for now
    process.stdin.flush()
    assert process.wait(60) == 1 and b"not a .npy file" in process.stderr.read()
    process.stdin.close()
    process.stderr.close()


def test_tmpdir(tmp_path):
    x = noise((4, 5), "f4")
    spool = tmp_path / "spool"
    spool.mkdir()
    env = dict(os.environ, TMPDIR=str(spool))
    ok("scan", "-", "-o", "-", input=npy_of(x), env=env)
    assert not os.listdir(spool)
    env = dict(os.environ, TMPDIR=str(tmp_path / "nowhere"))
    refused("scan", "-", "-o", "-", input=npy_of(x), env=env, says="TMPDIR")


def test_same_path_mode_and_links(tmp_path):
    x = noise((4, 5), "f4")
    path = tmp_path / "x.npy"
    np.save(path, x)
    os.chmod(path, 0o640)
    ok("scan", path, "-o", path)
    assert same_bits(np.load(path), scan_axis(x, 1))
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    (tmp_path / "link.npy").symlink_to("x.npy")
    np.save(path, x)
    ok("scan", path, "-o", tmp_path / "link.npy")
    assert (tmp_path / "link.npy").is_symlink()
    assert same_bits(np.load(path), scan_axis(x, 1))
    old = os.umask(0o027)
    try:
        ok("sum", path, "-o", "new.npy", cwd=tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(tmp_path / "new.npy").st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.npy", "new.npy", "x.npy"]


def test_links_to_nothing_yet(tmp_path):
    """What a link names is made, as a shell's > does it; the link stays."""
    x = noise((4, 5), "f4")
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "far").mkdir()
    (tmp_path / "relative.npy").symlink_to("far/first.npy")
    (tmp_path / "absolute.npy").symlink_to(tmp_path / "far" / "second.npy")
    (tmp_path / "chain.npy").symlink_to("far/link.npy")
    (tmp_path / "far" / "link.npy").symlink_to("../third.npy")
    for link, target in (("relative.npy", "far/first.npy"), ("absolute.npy", "far/second.npy"),
                         ("chain.npy", "third.npy")):
        ok("scan", "x.npy", "-o", link, cwd=tmp_path)
        assert (tmp_path / link).is_symlink() and not (tmp_path / target).is_symlink()
        assert same_bits(np.load(tmp_path / target), scan_axis(x, 1))
    assert sorted(os.listdir(tmp_path / "far")) == ["first.npy", "link.npy", "second.npy"]
    (tmp_path / "nowhere.npy").symlink_to("no/such.npy")
    refused("scan", "x.npy", "-o", "nowhere.npy", cwd=tmp_path, says=["nowhere.npy", "No such"])
    (tmp_path / "circle.npy").symlink_to("circle.npy")
    refused("scan", "x.npy", "-o", "circle.npy", cwd=tmp_path, says="symbolic links")


def test_device_is_written_to_not_replaced(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    ok("scan", tmp_path / "x.npy", "-o", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# ---------------------------------------------------------------------------------------------------------------
# Refusals
# ---------------------------------------------------------------------------------------------------------------

GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
DATA = bytes(24)
BAD_FILES = {
    "empty": (b"", "is empty"),
    "text": (b"hello, world\n", "not a .npy file"),
    "zip": (b"PK\x03\x04" + bytes(30), ".npz"),
    "magic only": (b"\x93NUMPY", "cut short"),
    "half magic": (b"\x93NUM", "cut short"),
    "version 0": (npy_bytes("<f4", (2, 3), DATA, version=(0, 0)), "version 0.0"),
    "version 4": (npy_bytes("<f4", (2, 3), DATA, version=(4, 0)), "version 4.0"),
    "version 1.1": (npy_bytes("<f4", (2, 3), DATA, version=(1, 1)), "version 1.1"),
    "no length": (b"\x93NUMPY\x02\x00\x10\x00", "cut short"),
    "header past the end": (npy_bytes("<f4", (2, 3), DATA, length=60000), "header should be 60000 bytes"),
    "header far past the end": (npy_bytes("<f4", (2, 3), DATA, version=(2, 0), length=2**32 - 1), "cut short"),
    "long header": (npy_bytes("", (), DATA, version=(2, 0), header=GOOD + " " * 66000),
                    "has a header of 660"),
    "short data": (npy_bytes("<f4", (2, 3), DATA[:-1]), "needs 24 bytes of data, but only 23"),
    "no data": (npy_bytes("<f4", (2, 3)), "needs 24 bytes"),
    "huge shape": (npy_bytes("<f4", (2**40, 2**10), DATA), "cut short"),
    "overflow": (npy_bytes("<f4", (2**32, 2**32), DATA), "64 bits"),
    "overflow beside zero": (npy_bytes("<f4", (0, 2**62, 2**62), DATA), "64 bits"),
    "overflow to small": (npy_bytes("<f4", (2**62, 4), DATA), "64 bits"),
    "length of 65 bits": (npy_bytes("<f4", (2**65,), DATA), "64 bits"),
    "negative": (npy_bytes("<f4", (-2, 3), DATA), "negative"),
    "65 dimensions": (npy_bytes("<f4", (1,) * 65, DATA), "64"),
    "structured": (npy_bytes([("a", "<f4"), ("b", "<i4")], (3,), DATA), "structured"),
    "object": (npy_bytes("|O", (3,), DATA), "Python objects"),
    "complex": (npy_bytes("<c8", (3,), DATA), "complex"),
    "text dtype": (npy_bytes("<U2", (3,), DATA), "text"),
    "bytes dtype": (npy_bytes("|S8", (3,), DATA), "byte strings"),
    "datetime": (npy_bytes("<M8[ns]", (3,), DATA), "dates"),
    "timedelta": (npy_bytes("<m8[s]", (3,), DATA), "time differences"),
    "void": (npy_bytes("|V8", (3,), DATA), "--view"),
    "odd void": (npy_bytes("|V3", (3,), DATA), "V3"),
    "longdouble": (npy_bytes("<f16", (1,), DATA), "f16'"),
    "nonsense dtype": (npy_bytes("<q4", (1,), DATA), "<q4"),
    "hostile dtype": (npy_bytes("\x1b[31m" + "x" * 500, (1,), DATA), "dtype"),
    "empty dtype": (npy_bytes("", (1,), DATA), "dtype"),
    "not a dictionary": (npy_bytes("", (), DATA, header="[1, 2]\n"), "dictionary"),
    "empty header": (npy_bytes("", (), DATA, header=""), "dictionary"),
    "unclosed": (npy_bytes("", (), DATA, header=GOOD.rstrip("}\n")), "damaged"),
    "unclosed string": (npy_bytes("", (), DATA, header="{'descr': '<f4"), "damaged"),
    "after": (npy_bytes("", (), DATA, header=GOOD + "x"), "follows"),
    "missing key": (npy_bytes("", (), DATA, header=GOOD.replace("'fortran_order': False, ", "")), "lacks 'fortran_"),
    "extra key": (npy_bytes("", (), DATA, header=GOOD.replace("{", "{'x': 1, ")), "'x'"),
    "twice": (npy_bytes("", (), DATA, header=GOOD.replace("}", "'shape': (6,)}")), "twice"),
    "shape is a number": (npy_bytes("", (), DATA, header=GOOD.replace("(2, 3)", "(6)")), "tuple"),
    "shape is a list": (npy_bytes("", (), DATA, header=GOOD.replace("(2, 3)", "[2, 3]")), "tuple"),
    "shape without comma": (npy_bytes("", (), DATA, header=GOOD.replace("(2, 3)", "(2 3)")), "tuple"),
    "shape of reals": (npy_bytes("", (), DATA, header=GOOD.replace("(2, 3)", "(2.0, 3)")), "shape"),
    "fortran maybe": (npy_bytes("", (), DATA, header=GOOD.replace("False", "None")), "neither True nor False"),
    "zero byte": (npy_bytes("", (), DATA, header=GOOD + "\0"), "follows"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused(tmp_path, name):
    content, says = BAD_FILES[name]
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    text = refused("scan", path, "-o", tmp_path / "out.npy", says=[str(path), says])
    assert text.isprintable() or text[:-1].isprintable()
    refused("sum", "-", "-o", tmp_path / "out.npy", input=content, says=["standard input", says])
    np.save(tmp_path / "good.npy", np.zeros((2, 3), "f4"))
    refused("sum", tmp_path / "good.npy", "--mask", path)
    assert sorted(os.listdir(tmp_path)) == ["bad.npy", "good.npy"]


def test_mutated_headers(tmp_path):
    """Whatever NumPy reads of a damaged file, we read the same or refuse; nothing crashes, nothing is left."""
    rng = np.random.default_rng(5)
    x = noise((2, 3), "i8")
    header = repr({"descr": "<i8", "fortran_order": False, "shape": x.shape}) + " " * 20 + "\n"
    good = npy_bytes("", (), x.tobytes(), header=header)
    accepted = 0
    for _ in range(400):
        bad = bytearray(good)
        at = rng.integers(6, len(good) - x.nbytes)
        bad[at] = rng.choice(np.frombuffer(b"0123456789(),'\"{}:<>|=?ifub \t\n\x00\xff", "u1"))
        (tmp_path / "in.npy").write_bytes(bad)
        done = run("sum", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--dtype", "i64")
        assert done.returncode in (0, 1)
        if done.returncode == 0:
            accepted += 1
            y = np.load(tmp_path / "in.npy", allow_pickle=False)
            if y.dtype.kind in "iu?":
                assert np.load(tmp_path / "out.npy") == np.sum(y, dtype="i8")
        else:
            assert done.stderr.startswith(b"scanfold: ") and not (tmp_path / "out.npy").exists()
        (tmp_path / "out.npy").unlink(missing_ok=True)
    assert accepted > 0


@pytest.mark.skipif(not FUZZ, reason="SCANFOLD_FUZZ_NPY does not name the driver")
def test_fuzz_driver():
    subprocess.run([FUZZ, "300000", "1"], check=True, timeout=60)


def test_mask_refusals(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 5), "f4"))
    for mask, says in [(np.ones((4,), "?"), "broadcast"), (np.ones((2, 4, 5), "?"), "broadcast"),
                       (np.ones((5,), "f4"), "bool"), (np.ones((5,), "i8"), "bool")]:
        np.save(tmp_path / "m.npy", mask)
        refused("scan", "x.npy", "-o", "y.npy", "--mask", "m.npy", says=["m.npy", says], cwd=tmp_path)
    refused("scan", tmp_path / "x.npy", "-o", tmp_path / "y.npy", "--mask", tmp_path / "none.npy", says="none.npy")
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("order", "CF")
def test_offsets(tmp_path, slab, order):
    """Every segment as a file of its own would be."""
    x, offsets = np.asarray(noise((60, 41), "f4"), order=order), np.array([0, 7, 7, 30, 38])
    for kind, axis, reverse in [("<i8", 1, False), (">i4", 0, True)]:
        np.save(tmp_path / "offsets.npy", offsets.astype(kind))
        flags = ["--axis", axis, "--offsets", tmp_path / "offsets.npy", *(["--reverse"] * reverse), *slab]
        parts = [np.take(x, range(a, b), axis) for a, b in zip(offsets, [*offsets[1:], x.shape[axis]])]
        got = through(tmp_path, "scan", x, *flags)
        assert same_bits(got, np.concatenate([scan_axis(p, axis, reverse=reverse) for p in parts if p.size], axis))
        nothing = np.zeros(x.shape[1 - axis], x.dtype)
        want = np.stack([fold_axes(p, (axis,), reverse=reverse) if p.size else nothing for p in parts[:-1]], axis)
        assert same_bits(through(tmp_path, "sum", x, *flags), want)
        assert same_bits(through(tmp_path, "sum", x, "--keepdim", *flags), want)
    np.save(tmp_path / "offsets.npy", np.array([0, 3]))
    np.save(tmp_path / "in.npy", np.arange(5.0))
    assert ok("sum", tmp_path / "in.npy", "--offsets", tmp_path / "offsets.npy").strip() == b"3"


def test_offsets_refusals(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 5), "f4"))
    for offsets, says in [(np.array([1, 5]), "must begin at 0"), (np.array([0, 3, 2]), "never decrease"), (np.array([0, 6]), "axis has 5 elements"),
                          (np.array([0.0, 5.0]), "int32 or int64"), (np.array([0, 5], "u8"), "int32 or int64"), (np.array([[0, 5]]), "one dimension"),
                          (np.array([], int), "one dimension"), (np.array(0), "one dimension")]:
        np.save(tmp_path / "o.npy", offsets)
        for command in ("scan", "sum"):
            refused(command, "x.npy", "-o", "y.npy", "--axis", "1", "--offsets", "o.npy", says=says, cwd=tmp_path)
    np.save(tmp_path / "o.npy", np.array([0, 4]))
    refused("sum", "x.npy", "-o", "y.npy", "--offsets", "o.npy", says="name one", cwd=tmp_path)
    refused("sum", "x.npy", "-o", "y.npy", "--axis", "1", "--offsets", "none.npy", says="none.npy", cwd=tmp_path)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "o.npy").read_bytes()[:-3])
    refused("sum", "x.npy", "-o", "y.npy", "--axis", "1", "--offsets", "cut.npy", says="cut.npy", cwd=tmp_path)
    refused("scan", "-", "-o", "-", "--offsets", "-", input=b"", status=2)
    assert not (tmp_path / "y.npy").exists()


def test_library_refusals_are_passed_on(tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((4, 5), "f4"))
    (tmp_path / "y.npy").write_text("as it was")
    for arguments, says in [(["--axis", "2"], "axis"), (["--axis", "-3"], "axis"), (["--dtype", "i32"], ""),
                            (["--dtype", "f64", "--acc", "f32"], "")]:
        refused("scan", x, "-o", tmp_path / "y.npy", *arguments, says=says)
    refused("sum", x, "-o", tmp_path / "y.npy", "--axis", "0,0", says="ax")
    refused("sum", x, "-o", tmp_path / "y.npy", "--axis", "0,5", says="ax")
    np.save(x, np.zeros((4, 5), "i4"))
    refused("sum", x, "-o", tmp_path / "y.npy", "--initial", "0.5", says="initial")
    assert (tmp_path / "y.npy").read_text() == "as it was"
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


def test_usage_errors(tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((4, 5), "f4"))
    for arguments, says in [
        ([], "say what to do"), (["frobnicate"], "frobnicate"), (["scan"], "needs a .npy file"), (["scan", x], "-o"),
        (["scan", x, "-o"], "-o needs a value"), (["scan", x, "-o", "y", "--axis"], "--axis needs a value"),
        (["scan", x, "-o", "y", "--axis", "one"], "one"), (["scan", x, "-o", "y", "--axis", "0,1"], "one"),
        (["scan", x, "-o", "y", "--axis", ""], "axis"), (["scan", x, "-o", "y", "--axis", "99999999999"], "axis"),
        (["sum", x, "-o", "y", "--axis", "0,"], "axis"), (["scan", x, "-o", "y", "--op", "mean"], "mean"),
        (["scan", x, "-o", "y", "--dtype", "f33"], "f33"),
        (["scan", x, "-o", "y", "--threads", "0"], "--threads is 0"),
        (["sum", x, "--threads", "-3"], "1 to 65536"),
        (["bench", "--threads", "99999999999"], "1 to 65536"),
        (["scan", x, "-o", "y", "-o", "y"], "-o was given twice: y and y"),
        (["scan", x, "-o", "y", "--threads", " 2"], "--threads"), (["scan", x, "-o", "y", "--initial", "1,5"], "1,5"),
        (["scan", x, "-o", "y", "--slab", "0"], "--slab"), (["scan", x, "-o", "y", "--slab", "8E"], "--slab"),
        (["scan", x, "-o", "y", "--keepdim"], "--keepdim"), (["sum", x, "-o", "y", "--exclusive"], "--exclusive"),
        (["sum", x, "--op", "max"], "fold --op max"), (["scan", x, x, "-o", "y"], "one file"),
        (["scan", x, "-o", "y", "--frob"], "--frob"), (["scan", x, "-o", "y", "-z"], "-z"),
        (["help", "frob"], "frob"), (["info", "x"], "x"), (["bench", "--rounds", "x"], "x"), (["bench", "x"], "x"),
    ]:
        refused(*arguments, says=says, status=2, cwd=tmp_path)
    assert os.listdir(tmp_path) == ["x.npy"]


def test_paths_that_cannot_be(tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((4, 5), "f4"))
    refused("scan", tmp_path / "none.npy", "-o", tmp_path / "y.npy", says=["none.npy", "No such file"])
    refused("scan", tmp_path, "-o", tmp_path / "y.npy", says="directory")
    refused("scan", x, "-o", tmp_path, says="directory")
    refused("scan", x, "-o", tmp_path / "no" / "y.npy", says="No such file")
    refused("scan", x, "-o", x / "y.npy", says="Not a directory")
    refused("scan", x, "-o", "", says="empty")
    refused("scan", x, "-o", tmp_path / ("y" * 300), says="too long")
    assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable(tmp_path):
    x, closed = tmp_path / "x.npy", tmp_path / "closed"
    np.save(x, np.zeros((4, 5), "f4"))
    closed.mkdir(0o555)
    refused("scan", x, "-o", closed / "y.npy", says="Permission denied")
    (tmp_path / "y.npy").write_text("mine")
    os.chmod(tmp_path / "y.npy", 0o444)
    refused("scan", x, "-o", tmp_path / "y.npy", says="Permission denied")
    assert (tmp_path / "y.npy").read_text() == "mine"


def test_unwritable_for_an_ordinary_user(tmp_path):
    """The same for tests run by root, as user 65534."""
    if os.geteuid() != 0:
        pytest.skip("only root can become someone else")
    for path in [tmp_path, *tmp_path.parents][:3]:
        os.chmod(path, 0o755)
    np.save(tmp_path / "x.npy", np.zeros((4, 5), "f4"))
    program = [CLI, "scan", "x.npy", "-o", "y.npy"]
    try:
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, user=65534)
    except PermissionError:
        pytest.skip("the binary is out of an ordinary user's reach")
    if done.returncode == 127:
        pytest.skip("the library is out of an ordinary user's reach")
    assert done.returncode == 1 and b"Permission denied" in done.stderr
    assert os.listdir(tmp_path) == ["x.npy"]


# ---------------------------------------------------------------------------------------------------------------
# Memory
# ---------------------------------------------------------------------------------------------------------------

@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_memory_stays_bounded(tmp_path):
    """A scan and folds of 100 MB with slabs of 2 MB: resident memory, mapped pages included, stays far below."""
    path = tmp_path / "x.npy"
    x = np.lib.format.open_memmap(path, "w+", "u1", (10000, 10000))
    x[-1] = 1
    del x
    for arguments in (["scan", "--axis", "1", "--op", "max"], ["max", "--axis", "0"], ["max"]):
        process = subprocess.Popen([CLI, arguments[0], path, "-o", tmp_path / "y.npy", *arguments[1:], "--slab", "2M"])
        peak = 0
        while process.poll() is None:
            # The kernel's own high-water mark, of the program alone: a child's rusage counts what forked it as well.
            with open(f"/proc/{process.pid}/status") as file:
                status = dict(line.split(":", 1) for line in file)
            if "scanfold" in status["Name"]:
                peak = max(peak, int(status.get("VmHWM", "0 kB").split()[0]))
            time.sleep(0.005)
        assert process.returncode == 0
        assert peak < 60_000, (arguments, peak)
    assert np.load(tmp_path / "y.npy") == 1


# ---------------------------------------------------------------------------------------------------------------
# Terminals
# ---------------------------------------------------------------------------------------------------------------

def test_nothing_binary_on_a_terminal(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 5), "f4"))
    status, shown = on_a_terminal(["scan", "x.npy", "-o", "-"], tmp_path, send_stdout=True)
    assert status == 1 and shown.startswith(b"scanfold: standard output is a terminal")


def test_progress_bar(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((300_000, 2), "f8"))
    for extra, bar in (([], True), (["--quiet"], False)):
        status, shown = on_a_terminal(["scan", "x.npy", "-o", "y.npy", "--slab", "1", *extra], tmp_path)
        assert status == 0
        if bar and not shown:
            pytest.skip("the machine did it in less than a second")
        assert (b"scan   [#" in shown and b"%" in shown and shown.endswith(b"\r\x1b[K")) if bar else shown == b""
    status, shown = on_a_terminal(["sum", "x.npy", "-o", "y.npy"], tmp_path)
    assert (status, shown) == (0, b"")


# ---------------------------------------------------------------------------------------------------------------
# Operations of two components
# ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("dtype", ["f4", "i2", "u1", "?"])
def test_positions_as_numpy(tmp_path, dtype, slab):
    """A line that is longer than a slab, too: positions are those in the whole of it."""
    x = (noise((3, 5000), "u1") % 5).astype(dtype)
    for op, numpy_op in (("argmax", np.argmax), ("argmin", np.argmin)):
        for axis in (0, 1):
            y = through(tmp_path, "fold", x, "--op", op, "--axis", axis, *slab)
            assert y.dtype == np.int64 and (y == numpy_op(x, axis)).all()
        assert through(tmp_path, "fold", x, "--op", op, *slab) == numpy_op(x)
        y = through(tmp_path, "fold", x, "--op", "last_" + op, "--axis", 1, "--dtype", "i32", *slab)
        assert y.dtype == np.int32 and (y == 4999 - numpy_op(x[:, ::-1], 1)).all()
    y = through(tmp_path, "scan", x, "--op", "last_argmax", "--axis", 1, *slab)
    largest = np.maximum.accumulate(x, 1)
    assert (np.take_along_axis(x, y, 1) == largest).all() and (np.diff(y, axis=1) >= 0).all()


@pytest.mark.parametrize("slab", SLABS)
def test_logsumexp(tmp_path, slab):
    x = noise((2, 3000), "f8") % 7
    right = np.log(np.exp(x).sum(1))
    assert np.allclose(through(tmp_path, "fold", x, "--op", "logsumexp", "--axis", 1, *slab), right, rtol=1e-13)
    assert np.allclose(through(tmp_path, "scan", x, "--op", "logsumexp", "--axis", 1, *slab)[:, -1], right, rtol=1e-13)
    assert through(tmp_path, "fold", x.astype("i4"), "--op", "logsumexp").dtype == np.float64


def test_what_positions_are_refused(tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, np.zeros(3, dtype="f4"))
    refused("fold", x, "--op", "argmax", "--dtype", "f32", says=["i32 or i64"])
    refused("fold", x, "--op", "argmax", "--initial", "1", says=["position"])
    refused("scan", x, "-o", tmp_path / "y.npy", "--op", "recurrence", says=["linear_recurrence"], status=2)
    refused("fold", x, "--op", "median", says=["argmax"], status=2)
    assert not (tmp_path / "y.npy").exists()
    y = tmp_path / "y.npy"
    np.save(tmp_path / "a.npy", np.full(3, 0.5))
    ok("run", "linear_recurrence(a, b + 1)", f"a={tmp_path / 'a.npy'}", f"b={x}", "-o", y)
    assert np.load(y).tolist() == [1, 1.5, 1.75]
