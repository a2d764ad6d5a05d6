"""python -m scanfold: the program that was built with this package."""
import importlib.metadata
import subprocess
import sys

import numpy as np
import pytest
import scanfold
import scanfold.__main__ as module


def command(*arguments, **options):
    program = [sys.executable, "-m", "scanfold", *arguments]
    return subprocess.run(program, capture_output=True, **options)


@pytest.mark.host_only("the command line's")
@pytest.mark.skipif(module.find_program() is None, reason="the command line was not built")
def test_it_is_the_command_line(tmp_path):
    assert command("--version").stdout.decode() == f"scanfold {scanfold.__version__}\n"
    np.save(tmp_path / "x.npy", np.ones((2, 3)))
    assert command("sum", tmp_path / "x.npy").stdout == b"6\n"
    done = command("sum")
    assert done.returncode == 2 and done.stderr.startswith(b"scanfold: sum needs a .npy file")


@pytest.mark.host_only("the command line's")
def test_without_the_program(monkeypatch, tmp_path):
    """A sentence, whether the package says nothing of its files, or is not known at all."""
    monkeypatch.setattr(module, "__file__", str(tmp_path / "__main__.py"))  # a wheel has the program beside it
    def unknown(name):
        raise importlib.metadata.PackageNotFoundError(name)

    for files in (lambda name: None, lambda name: [], unknown):
        monkeypatch.setattr(importlib.metadata, "files", files)
        with pytest.raises(SystemExit, match="scanfold: the program is not here"):
            module.main()
