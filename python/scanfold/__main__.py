"""python -m scanfold: runs the command-line program that pip installs with the package."""
import importlib.metadata
import os
import sys


def find_program():
    """The path of the program that was installed or built with this package, or None.

    A wheel has it inside the package. An editable install lists its path in the package's
    metadata."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "scanfold")
    if os.access(inside, os.X_OK):
        return inside
    try:
        files = importlib.metadata.files("scanfold") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == "scanfold" and os.access(file.locate(), os.X_OK):
            return str(file.locate())
    return None


def main():
    program = find_program()
    if program is None:
        sys.exit("scanfold: the program is not here; pip install puts it beside the package, and "
                 "without pip cmake --build build --target scanfold_cli makes it")
    os.execv(program, ["scanfold", *sys.argv[1:]])


if __name__ == "__main__":
    main()
