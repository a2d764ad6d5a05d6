"""What programs that are already compiled rely on is as tests/abi.txt has it: functions, where each field lies, the numbers of constants.

Its first line is the soname that promises it. The header may have more: a function, a constant, a field in the place of one that was reserved or behind the
last. A line that changes or goes away breaks those programs: then the soname must be another, which SF_VERSION_MINOR makes before 1.0, SF_VERSION_MAJOR after it.

    python tests/test_abi.py --record     writes the file anew, as a release does, which promises what has been added
"""
import os
import re
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "..", "include")
RECORD = os.path.join(HERE, "abi.txt")


def header():
    """scanfold.h without comments and without what only C++ and dlpack.h see."""
    with open(os.path.join(INCLUDE, "scanfold.h")) as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    return re.sub(r"#ifdef __cplusplus.*?#(else|endif)", "", text, flags=re.S)


def soname(text):
    major, minor = (re.search(rf"#define SF_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR"))
    return f"soname libscanfold.so.{major if int(major) else major + '.' + minor}"


def fields(body):
    """The names of a struct's fields; those of a union within are at the union's place."""
    body = re.sub(r"union \{[^}]*\}", "union", body)
    for declaration in body.split(";"):
        for name in re.findall(r"(\w+)(?:\[[^]]*\])?\s*(?:,|$)", declaration.strip()):
            if not name.startswith("reserved"):
                yield name


def lines():
    """One for each function, constant and field, the numbers as a compiler has them."""
    text = header()
    made = [" ".join(declaration.split()) for declaration in re.findall(r"^SF_API ([^;]*);", text, flags=re.M)]
    asked = []
    for _, body, name in re.findall(r"typedef struct (\w+) \{(.*?)\n\} (\w+);", text, flags=re.S):
        members = list(fields(body))
        assert members, name
        if members[0] != "size":  # one that carries its size may grow
            asked.append((f"sizeof {name}", f"sizeof({name})"))
        for member in members:
            asked.append((f"{name}.{member} ends at", f"offsetof({name}, {member}) + sizeof((({name} *)0)->{member})"))
    for body in re.findall(r"enum(?: \w+)? \{(.*?)\}", text, flags=re.S):
        asked += [(name, name) for name in re.findall(r"(SF_\w+)\s*(?:=|,|$)", body)]
    program = "#include <stdio.h>\n#include \"scanfold.h\"\nint main(void)\n{\n" + "".join(
        f'        printf("{said} %lld\\n", (long long)({value}));\n' for said, value in asked) + "}\n"
    folder = os.environ.get("TMPDIR", "/tmp")
    binary = os.path.join(folder, f"abi-{os.getpid()}")
    try:
        subprocess.run([shutil.which("cc") or "gcc", "-x", "c", "-I", INCLUDE, "-", "-o", binary], input=program, text=True, check=True)
        made += subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines()
    finally:
        if os.path.exists(binary):
            os.remove(binary)
    return soname(text), made


@pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="no C compiler")
def test_what_programs_rely_on_stays():
    with open(RECORD) as file:
        promised, *old = file.read().splitlines()
    name, new = lines()
    assert len(old) > 200
    assert name == promised, f"tests/abi.txt is that of {promised}: python tests/test_abi.py --record"
    gone = sorted(set(old) - set(new))
    assert not gone, f"{name} promises what is no longer so: {gone}. Raise the version, then python tests/test_abi.py --record"


if __name__ == "__main__":
    if sys.argv[1:] != ["--record"]:
        sys.exit(__doc__)
    name, new = lines()
    with open(RECORD, "w") as file:
        file.write("\n".join([name, *new]) + "\n")
