"""Results appear whole or not at all, whatever ends the work: no room, a signal, a library, a name
that cannot be taken."""
import os
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from cli_tools import CLI, needs_cli, npy_of, ok, refused

pytestmark = needs_cli
HAVE_PROC = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs Linux's /proc")


# -------------------------------------------------------------------------------------------------
# No room
# -------------------------------------------------------------------------------------------------

def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_no_room(tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((100, 100), "f4"))
    (tmp_path / "y.npy").write_text("as it was")
    refused("scan", x, "-o", tmp_path / "y.npy", preexec_fn=small_files,
            says=["y.npy", "40128 bytes", "File too large"])
    assert (tmp_path / "y.npy").read_text() == "as it was"
    refused("scan", x, "-o", "-", preexec_fn=small_files, says="TMPDIR")
    refused("sum", "-", input=npy_of(np.zeros((100, 100))), preexec_fn=small_files, says="TMPDIR")
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


@pytest.fixture
def small_disk(tmp_path):
    """64 KB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk")
    yield disk
    subprocess.run(["umount", disk])


def test_full_disk(tmp_path, small_disk):
    np.save(tmp_path / "x.npy", np.zeros((100, 1000), "f4"))
    refused("scan", tmp_path / "x.npy", "-o", small_disk / "y.npy", says="No space left")
    refused("scan", "-", "-o", tmp_path / "y.npy", input=npy_of(np.zeros((100, 1000))),
            says="No space left", env=dict(os.environ, TMPDIR=str(small_disk)))
    assert os.listdir(small_disk) == []
    ok("sum", tmp_path / "x.npy", "-o", small_disk / "y.npy", "--axis", 1)
    assert os.listdir(small_disk) == ["y.npy"]
    assert not (tmp_path / "y.npy").exists()


def test_room_for_one_of_two(tmp_path, small_disk):
    np.save(tmp_path / "x.npy", np.zeros((100, 100), "f4"))
    (small_disk / "a.npy").write_text("as it was")
    two = ["run", "cumsum(x, 0), cumsum(x, 1)", f"x={tmp_path}/x.npy", "-o"]
    refused(*two, small_disk / "a.npy", "-o", small_disk / "b.npy", says="No space left")
    assert os.listdir(small_disk) == ["a.npy"] and (small_disk / "a.npy").read_text() == "as it was"
    refused(*two, tmp_path / "a.npy", "-o", "/dev/full", says="No space left")
    assert not (tmp_path / "a.npy").exists()


def test_closed_and_full_stdout(tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((1000, 1000), "f4"))
    read_end, write_end = os.pipe()
    os.close(read_end)
    for arguments in (["scan", x, "-o", "-"], ["--help"], ["info"], ["sum", x]):
        done = subprocess.run([CLI, *arguments], stdout=write_end, stderr=subprocess.PIPE)
        assert done.returncode == 1
        said = b"scanfold: standard output was closed before everything was written\n"
        assert done.stderr == said
        with open("/dev/full", "wb") as full:
            done = subprocess.run([CLI, *arguments], stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 1 and b"No space left" in done.stderr
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", CLI, *arguments],
                              stderr=subprocess.PIPE)
        assert done.returncode == 1 and done.stderr.startswith(b"scanfold: ")
    os.close(write_end)
    ok("scan", x, "-o", tmp_path / "y.npy", preexec_fn=lambda: (os.close(0), os.close(1)))
    assert np.load(tmp_path / "y.npy").shape == (1000, 1000)


# -------------------------------------------------------------------------------------------------
# Several results
# -------------------------------------------------------------------------------------------------

def test_two_results_for_one_file(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 5), "f4"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "old.npy").write_text("as it was")
    os.link(tmp_path / "old.npy", tmp_path / "hard.npy")
    (tmp_path / "link.npy").symlink_to("old.npy")
    (tmp_path / "dangling.npy").symlink_to("folder/new.npy")
    before = sorted(os.listdir(tmp_path))

    def both(a, b, **options):
        return ["run", "sum(x), max(x)", "x=x.npy", "-o", a, "-o", b], dict(options, cwd=tmp_path)

    for a, b in [("new.npy", "new.npy"), ("new.npy", "./new.npy"),
                 ("new.npy", tmp_path / "new.npy"), ("new.npy", "folder/../new.npy"),
                 ("old.npy", "old.npy"), ("old.npy", "link.npy"), ("old.npy", "hard.npy"),
                 ("dangling.npy", "folder/new.npy"), ("x.npy", "./x.npy")]:
        arguments, options = both(a, b)
        refused(*arguments, **options, says=["one file", str(a), str(b)])
        assert sorted(os.listdir(tmp_path)) == before and not os.listdir(tmp_path / "folder")
    with open(tmp_path / "old.npy", "r+") as file:
        arguments, options = both("-", "old.npy")
        done = subprocess.run([CLI, *arguments], stdout=file, stderr=subprocess.PIPE, **options)
    assert done.returncode == 1 and b"one file" in done.stderr
    assert (tmp_path / "old.npy").read_text() == "as it was"

    # Nothing is lost where results follow one another, and names in two directories are two names.
    for a, b in [("/dev/null", "/dev/null"), ("-", "-"), ("new.npy", "folder/new.npy"),
                 ("x.npy", "y.npy")]:
        arguments, options = both(a, b)
        ok(*arguments, **options)
    assert np.load(tmp_path / "x.npy").shape == ()


@pytest.fixture
def immovable(tmp_path):
    """A file that can be written, and not replaced: another one is mounted on it."""
    path = tmp_path / "immovable.npy"
    path.write_text("as it was")
    (tmp_path / "under").write_text("as it was")
    mount = ["mount", "--bind", tmp_path / "under", path]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a file")
    yield path
    subprocess.run(["umount", path])


def test_a_name_that_cannot_be_taken(tmp_path, immovable):
    """The last of three: the first, which was there, is put back; the second, which was not, is
    removed."""
    np.save(tmp_path / "x.npy", np.zeros((4, 5), "f4"))
    old = tmp_path / "old.npy"
    old.write_text("as it was")
    os.chmod(old, 0o640)
    number = old.stat().st_ino
    before = sorted(os.listdir(tmp_path))
    refused("run", "sum(x), max(x), min(x)", "x=x.npy", "-o", "old.npy", "-o", "new.npy",
            "-o", "immovable.npy", cwd=tmp_path, says=["cannot write immovable.npy", "busy"])
    assert sorted(os.listdir(tmp_path)) == before
    assert old.read_text() == immovable.read_text() == "as it was" and old.stat().st_ino == number
    refused("sum", "x.npy", "-o", "immovable.npy", cwd=tmp_path, says="busy")
    assert sorted(os.listdir(tmp_path)) == before


def test_several_results_replace_what_was_there(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    for name in ("a.npy", "b.npy"):
        (tmp_path / name).write_text("as it was")
    ok("run", "sum(x), max(x), sum(x, 0)", "x=x.npy", "-o", "a.npy", "-o", "b.npy", "-o", "x.npy",
       cwd=tmp_path)
    results = [np.load(tmp_path / name).tolist() for name in ("a.npy", "b.npy", "x.npy")]
    assert results == [15, 5, [3, 5, 7]]
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "x.npy"]


# -------------------------------------------------------------------------------------------------
# Endings
# -------------------------------------------------------------------------------------------------

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>

static int open_named(const char *name, const char *path, int flags, va_list arguments)
{
        if ((flags & O_TMPFILE) == O_TMPFILE && getenv("SHIM_NAMES")) {
                errno = EOPNOTSUPP;
                return -1;
        }
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
        return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name))(path, flags, mode);
}

#define OPEN(name) int name(const char *path, int flags, ...) \\
        { va_list a; va_start(a, flags); int fd = open_named(#name, path, flags, a); va_end(a); \\
          return fd; }
OPEN(open)
OPEN(open64)

int madvise(void *start, size_t size, int advice)
{
        (void)start, (void)size, (void)advice;
        if (getenv("SHIM_EXITS"))
                exit(3);
        return 0;
}
"""


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    """An environment in which files without a name cannot be had (SHIM_NAMES), or a library gives
    up (SHIM_EXITS)."""
    if not shutil.which("cc"):
        pytest.skip("no cc to build a shim with")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"],
                   check=True)
    return dict(os.environ, LD_PRELOAD=str(folder / "shim.so"))


def start_long_work(tmp_path, **options):
    """A slab of one byte makes a call of each line: long enough to be interrupted, whatever the
    machine. Its output is mapped when this returns."""
    np.save(tmp_path / "x.npy", np.zeros((2_000_000, 2), "f8"))
    (tmp_path / "y.npy").write_text("as it was")
    process = subprocess.Popen([CLI, "scan", "x.npy", "-o", "y.npy", "--slab", "1"], cwd=tmp_path,
                               stderr=subprocess.PIPE, **options)
    while process.poll() is None:
        with open(f"/proc/{process.pid}/maps") as file:
            if any(str(tmp_path) + "/" in line and "/x.npy" not in line for line in file):
                return process
        time.sleep(0.001)
    raise AssertionError(process.stderr.read())


def has_nameless_files(folder):
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
        return True
    except OSError:
        return False


ENDS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU, signal.SIGABRT,
        signal.SIGSEGV, signal.SIGKILL]


@HAVE_PROC
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("number", ENDS)
def test_killed_in_the_middle(tmp_path, shim, number, named):
    def prepare():
        # Whoever runs the tests may ignore hang-ups or interrupts (nohup and a shell's & do), and a
        # child inherits that.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)

    env = dict(shim, SHIM_NAMES="1") if named else None
    process = start_long_work(tmp_path, preexec_fn=prepare, env=env)
    shown = [name for name in os.listdir(tmp_path) if name.startswith(".scanfold-")]
    assert len(shown) == 1 if named else not shown or not has_nameless_files(tmp_path)
    time.sleep(0.02)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number
    assert (tmp_path / "y.npy").read_text() == "as it was"
    if number != signal.SIGKILL or not shown:  # only SIGKILL, which cannot be caught, leaves a named file
        assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


@pytest.mark.parametrize("named", [False, True])
def test_a_library_that_exits(tmp_path, shim, named):
    np.save(tmp_path / "x.npy", np.zeros((100, 100), "f4"))
    env = dict(shim, SHIM_EXITS="1", **({"SHIM_NAMES": "1"} if named else {}))
    done = subprocess.run([CLI, "scan", "x.npy", "-o", "y.npy", "--slab", "1K"], cwd=tmp_path,
                          env=env)
    assert done.returncode == 3 and os.listdir(tmp_path) == ["x.npy"]


def test_named_files_are_renamed_too(tmp_path, shim):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    (tmp_path / "a.npy").write_text("as it was")
    os.chmod(tmp_path / "a.npy", 0o640)
    ok("run", "sum(x), max(x)", "x=x.npy", "-o", "a.npy", "-o", "b.npy", cwd=tmp_path,
       env=dict(shim, SHIM_NAMES="1"))
    assert np.load(tmp_path / "a.npy") == 15 and np.load(tmp_path / "b.npy") == 5
    assert (tmp_path / "a.npy").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "x.npy"]


@HAVE_PROC
def test_input_cut_while_in_use(tmp_path):
    process = start_long_work(tmp_path)
    os.truncate(tmp_path / "x.npy", 4096)
    _, text = process.communicate()
    assert process.returncode == 1 and text.startswith(b"scanfold: the input became shorter")
    assert (tmp_path / "y.npy").read_text() == "as it was"
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]
