#!/usr/bin/env python3
"""mutation.py [--few] [--only TEXT] [--list]: shows that the tests would notice a wrong line. tests/mutations.txt has the lines.

One copy of the sources, one build of it, in build/mutation, as test-clang has it: portable kernels, not optimised, and warnings are errors. Each change is put
in by itself and taken out again, so that only what it touches is compiled anew, with ccache where that is. A test that fails, does not end or dies has
noticed. --few: those with a star, which `make test` has. Each is a line when it has been tried; the report at the end counts them by part of the
library and names the survivors. It fails where one has no explanation, where an explained one was noticed, and where more than MOST survive.
"""
import os, shutil, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, "build", "mutation")
COPY = os.path.join(WORK, "tree")
BUILD = os.path.join(COPY, "build", "clang")  # as far from its sources as test-clang's is, with the same flags: so ccache has its objects
SECONDS = 600  # no test takes a tenth of this time, so a test that reaches it hangs
MOST = 2       # survivors, each with its reason
JOBS = str(len(os.sched_getaffinity(0)))
HOST = {"host": "test_cuda_host", "sides": "test_sides_host", "plans": "test_expr_host", "memory": "test_memory_host"}
HOST_COMPILER = "c++ -std=c++14 -w -O0 -ffp-contract=off -I" + os.path.join(COPY, "tests/cuda_host")
HOST_FLAGS = {"sides": " -include " + os.path.join(COPY, "tests/cuda_host/not_commuting.hpp"), "memory": " -DSF_RACES -fsanitize=thread -fno-exceptions -nodefaultlibs"}


class Mutation:
    def __init__(self, file, test, few):
        self.file, self.test, self.few = file, test.split(), few
        self.old = self.new = self.reason = None


def read():
    """Texts may go on over lines that begin with a space."""
    found, last = [], None
    for line in open(os.path.join(ROOT, "tests", "mutations.txt")):
        line = line.rstrip("\n")
        if line.startswith(("@ ", "*@ ")):
            file, _, test = line.split("@ ", 1)[1].partition(": ")
            found.append(Mutation(file, test, line[0] == "*"))
        elif line.startswith(("- ", "+ ", "= ")):
            last = {"-": "old", "+": "new", "=": "reason"}[line[0]]
            setattr(found[-1], last, line[2:])
        elif line.startswith(" ") and last:
            setattr(found[-1], last, getattr(found[-1], last) + "\n" + line)
    for m in found:
        text = open(os.path.join(ROOT, m.file)).read()
        if m.old is None or m.new is None or m.old == m.new:
            sys.exit(f"mutation: one of {m.file} changes nothing")
        if text.count(m.old) != 1:
            sys.exit(f"mutation: {m.file} has {text.count(m.old)} of {m.old!r}; it must be exactly one")
    return found


def copy():
    """The sources as they are now; what has not changed keeps its time, so that it is not compiled again."""
    for top in ("CMakeLists.txt", "cmake", "include", "src", "python", "tests", "pyproject.toml", "docs", "examples", "README.md"):
        for folder, folders, files in os.walk(os.path.join(ROOT, top)) if os.path.isdir(os.path.join(ROOT, top)) else [(ROOT, [], [top])]:
            folders[:] = [f for f in folders if f != "__pycache__"]
            to = os.path.join(COPY, os.path.relpath(folder, ROOT))
            os.makedirs(to, exist_ok=True)
            for name in files:
                source, target = os.path.join(folder, name), os.path.join(to, name)
                if not name.endswith(".so") and (not os.path.exists(target) or open(source, "rb").read() != open(target, "rb").read()):
                    shutil.copyfile(source, target)


def run(command, log, seconds=None, **more):
    """The exit code, or a number that is no exit code if it did not end."""
    with open(log, "w") as to:
        try:
            return subprocess.run(command, stdout=to, stderr=subprocess.STDOUT, timeout=seconds, **more).returncode
        except subprocess.TimeoutExpired:
            return 1000


def must(command):
    log = os.path.join(WORK, "log")
    if run(command, log, cwd=COPY):
        print(open(log).read()[-4000:])
        sys.exit(f"mutation: {' '.join(command)} fails")


def target(test):
    return {"python": "scanfold_python"}.get(test[0]) or HOST.get(test[0]) or test[0]


def build(targets):
    """Whether they build."""
    return run(["cmake", "--build", BUILD, "-j", JOBS, "--target", *targets], os.path.join(WORK, "log")) == 0


def passes(test, python):
    log = os.path.join(WORK, "said")
    if test[0] == "python":
        # Python tells sources by their time, in seconds, and size: what it compiled of a mutated one could pass for the mended one's.
        compiled = os.path.join(WORK, "pycache")
        shutil.rmtree(compiled + COPY, ignore_errors=True)
        environment = dict(os.environ, PYTHONPATH=os.path.join(COPY, "python"), PYTHONPYCACHEPREFIX=compiled)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return run([python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *test[1:]], log, SECONDS, cwd=COPY, env=environment) == 0
    if test[0] in HOST:
        folder = os.path.join(BUILD, "tests", "cuda_host")
        compiler = HOST_COMPILER + HOST_FLAGS.get(test[0], "")
        command = [os.path.join(folder, HOST[test[0]]), os.path.join(folder, "compiled"), compiler, JOBS, *test[1:]]
        return run(command, log, SECONDS, env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0")) == 0
    return run([os.path.join(BUILD, "tests", test[0]), *test[1:]], log, SECONDS, cwd=os.path.join(COPY, "tests")) == 0


def try_one(m, python):
    """Sets m.outcome: noticed, survives, or does not build."""
    path = os.path.join(COPY, m.file)
    right = open(path).read()
    m.place = f"{m.file}:{right[:right.index(m.old)].count(chr(10)) + 1}"
    open(path, "w").write(right.replace(m.old, m.new))
    m.outcome = "does not build" if not build([target(m.test)]) else "survives" if passes(m.test, python) else "noticed"
    open(path, "w").write(right)


def report(chosen, seconds):
    """Whether anything is not as tests/mutations.txt says."""
    part = lambda m: "/".join(m.file.split("/")[:2]) if m.file.startswith("src/") else m.file.split("/")[0]
    print(f"\n{'part':<12} {'tried':>6} {'noticed':>8} {'survive':>8}")
    for name in sorted({part(m) for m in chosen}) + ["all"]:
        some = [m for m in chosen if name in ("all", part(m))]
        print(f"{name:<12} {len(some):>6} {sum(m.outcome == 'noticed' for m in some):>8} {sum(m.outcome == 'survives' for m in some):>8}")
    survivors = [m for m in chosen if m.outcome == "survives"]
    wrong = [m for m in chosen if m.outcome != ("noticed" if m.reason is None else "survives")]
    for m in survivors:
        print(f"survives: {m.place}: {m.reason or 'and nothing says why'}")
    for m in wrong:
        if m.outcome != "survives":
            print(f"not as tests/mutations.txt says: {m.place}: {m.outcome}")
    print(f"mutation: {len(chosen)} changes in {seconds:.0f} s, {len(survivors)} survive" + (f"; at most {MOST} may" if len(survivors) > MOST else ""))
    return bool(wrong) or len(survivors) > MOST


def main():
    chosen = read()
    if "--few" in sys.argv:
        chosen = [m for m in chosen if m.few]
    if "--only" in sys.argv:
        wanted = sys.argv[sys.argv.index("--only") + 1]
        chosen = [m for m in chosen if wanted in m.file]
    if "--list" in sys.argv:
        return print(len(chosen), "mutations of", len({m.file for m in chosen}), "files")
    python = os.environ.get("PYTHON") or subprocess.run([os.path.join(ROOT, "tests/python.sh"), "numpy", "pytest", "torch"], stdout=subprocess.PIPE,
                                                        check=True, text=True).stdout.strip()
    os.makedirs(WORK, exist_ok=True)
    copy()
    compiler = shutil.which("clang") or shutil.which("cc")
    must(["cmake", "-S", COPY, "-B", BUILD, "-DSCANFOLD_CLI=OFF", "-DSCANFOLD_EXAMPLES=OFF", "-DSCANFOLD_MPI=OFF", "-DSCANFOLD_PORTABLE_ONLY=ON",
          "-DSCANFOLD_QUICK=portable", "-DSCANFOLD_WERROR=ON", "-DSCANFOLD_TEST_EVERY=60", "-DSCANFOLD_PYTHON=ON",
          "-DSCANFOLD_HOST_SANITIZE=OFF", f"-DCMAKE_C_COMPILER={compiler}", f"-DPython3_EXECUTABLE={python}",
          f"-DCMAKE_C_COMPILER_LAUNCHER={shutil.which('ccache') or ''}"])
    if not build(sorted({target(m.test) for m in chosen})):
        print(open(os.path.join(WORK, "log")).read()[-4000:])
        sys.exit("mutation: the sources do not build")
    # The tests themselves must pass, or their failing would say nothing.
    for test in sorted({tuple(m.test) for m in chosen}):
        if not passes(test, python):
            print(open(os.path.join(WORK, "said")).read()[-4000:])
            sys.exit(f"mutation: {' '.join(test)} fails without any change")
    start = time.time()
    for number, m in enumerate(chosen, 1):
        begin = time.time()
        try_one(m, python)
        print(f"[{number}/{len(chosen)}] {m.place}: {' '.join(m.test)}: {m.outcome} ({time.time() - begin:.0f} s)", flush=True)
    sys.exit(report(chosen, time.time() - start))


main()
